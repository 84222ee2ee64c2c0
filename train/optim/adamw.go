package optim

import (
	"math"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
)

// AdamWOptions are AdamW's constants. Comments state the default of a zero
// field.
type AdamWOptions struct {
	Beta1   float64 // 0.9
	Beta2   float64 // 0.95
	Epsilon float64 // 1e-8
	Decay   float64 // weight decay of parameters with Decay; 0: none
}

func (o AdamWOptions) withDefaults() AdamWOptions {
	if o.Beta1 == 0 {
		o.Beta1 = 0.9
	}
	if o.Beta2 == 0 {
		o.Beta2 = 0.95
	}
	if o.Epsilon == 0 {
		o.Epsilon = 1e-8
	}
	return o
}

// AdamW is Adam with decoupled weight decay (arXiv 1711.05101):
//
//	m = β1·m + (1-β1)·g        v = β2·v + (1-β2)·g²
//	w = w - rate·decay·w - rate·(m/(1-β1ᵗ)) / (√(v/(1-β2ᵗ)) + ε)
type AdamW struct {
	opt    AdamWOptions
	params []Param
	m, v   [][]float32
	step   int

	spans  []span
	pool   *pool.Pool
	run    pool.Func
	update []tensor.AdamW // constants of this step, one per parameter
}

// NewAdamW returns an AdamW over params. If p is nil, it uses one thread.
func NewAdamW(params []Param, opt AdamWOptions, p *pool.Pool) *AdamW {
	a := &AdamW{opt: opt.withDefaults(), params: params, m: zeros(params), v: zeros(params), spans: cut(params), pool: p}
	a.update = make([]tensor.AdamW, len(params))
	a.run = a.spansOf
	return a
}

// Step updates the weights by their gradients times scale at learning rate
// rate.
func (a *AdamW) Step(rate, scale float64) {
	a.prepare(rate, scale)
	each(a.pool, len(a.spans), a.run)
}

func (a *AdamW) prepare(rate, scale float64) {
	a.step++
	o, t := a.opt, float64(a.step)
	for i := range a.params {
		r, decay := a.params[i].rate(rate), 0.0
		if a.params[i].Decay {
			decay = o.Decay
		}
		a.update[i] = tensor.AdamW{
			GradScale: float32(scale),
			Beta1:     float32(o.Beta1), Inv1: float32(1 - o.Beta1),
			Beta2: float32(o.Beta2), Inv2: float32(1 - o.Beta2),
			Rate:          float32(r / (1 - math.Pow(o.Beta1, t))),
			RootCorrect:   float32(1 / math.Sqrt(1-math.Pow(o.Beta2, t))),
			Epsilon:       float32(o.Epsilon),
			DecayedWeight: float32(1 - r*decay),
		}
	}
}

func (a *AdamW) spansOf(_, from, to int) {
	for _, s := range a.spans[from:to] {
		p := &a.params[s.param]
		a.update[s.param].Update(p.Data[s.lo:s.hi], p.Grad[s.lo:s.hi], a.m[s.param][s.lo:s.hi], a.v[s.param][s.lo:s.hi])
	}
}

// State returns the moments, aliased.
func (a *AdamW) State() State {
	return State{Step: a.step, Slots: append(slots(a.params, "m", a.m), slots(a.params, "v", a.v)...)}
}

// Restore restores the state of an AdamW over the same parameters.
func (a *AdamW) Restore(s State) error {
	if err := a.State().restore(s); err != nil {
		return err
	}
	a.step = s.Step
	return nil
}
