package optim

import (
	"math"

	"mm-abi.org/mm/core/pool"
)

// ScheduleFree is AdamW without a schedule (Defazio et al., arXiv 2405.15682).
// Three points are kept: z, which steps; x, the weighted mean of all z; and
// y = (1-β1)·z + β1·x between them, at which the gradient is taken:
//
//	v = β2·v + (1-β2)·g(y)²
//	z = z - rate·(g(y)/(√(v/(1-β2ᵗ)) + ε) + decay·y)
//	x = (1-c)·x + c·z,  c = rate²/Σ rate²
//
// The weights are y during training. Average replaces them by x, the model to
// evaluate and save, and Continue restores y.
type ScheduleFree struct {
	opt     AdamWOptions
	params  []Param
	z, x, v [][]float32
	step    int
	sum     float64

	spans                  []span
	pool                   *pool.Pool
	run                    pool.Func
	rate, scale, mix, root float64
}

// NewScheduleFree returns a ScheduleFree over params. If p is nil, it uses one
// thread. The default of Beta2 is 0.999, as published.
func NewScheduleFree(params []Param, opt AdamWOptions, p *pool.Pool) *ScheduleFree {
	if opt.Beta2 == 0 {
		opt.Beta2 = 0.999
	}
	s := &ScheduleFree{opt: opt.withDefaults(), params: params, z: zeros(params), x: zeros(params), v: zeros(params), spans: cut(params), pool: p}
	for i, q := range params {
		copy(s.z[i], q.Data)
		copy(s.x[i], q.Data)
	}
	s.run = s.spansOf
	return s
}

// Step updates the weights by their gradients times scale; rate is constant
// after the warm-up.
func (s *ScheduleFree) Step(rate, scale float64) {
	s.step++
	s.sum += rate * rate
	s.mix = 0
	if s.sum > 0 {
		s.mix = rate * rate / s.sum
	}
	s.root = math.Sqrt(1 - math.Pow(s.opt.Beta2, float64(s.step)))
	s.rate, s.scale = rate, scale
	each(s.pool, len(s.spans), s.run)
}

func (s *ScheduleFree) spansOf(_, from, to int) {
	for _, c := range s.spans[from:to] {
		p := &s.params[c.param]
		rate, decay := p.rate(s.rate), 0.0
		if p.Decay {
			decay = s.opt.Decay
		}
		y, g := p.Data[c.lo:c.hi], p.Grad[c.lo:c.hi]
		z, x, v := s.z[c.param][c.lo:c.hi], s.x[c.param][c.lo:c.hi], s.v[c.param][c.lo:c.hi]
		for i := range y {
			gi := float64(g[i]) * s.scale
			vi := s.opt.Beta2*float64(v[i]) + (1-s.opt.Beta2)*gi*gi
			v[i] = float32(vi)
			z[i] -= float32(rate * (gi/(math.Sqrt(vi)/s.root+s.opt.Epsilon) + decay*float64(y[i])))
			x[i] += float32(s.mix * float64(z[i]-x[i]))
		}
		s.between(y, z, x)
	}
}

// between sets y = (1-β1)·z + β1·x.
func (s *ScheduleFree) between(y, z, x []float32) {
	a, b := float32(1-s.opt.Beta1), float32(s.opt.Beta1)
	for i := range y {
		y[i] = a*z[i] + b*x[i]
	}
}

// Average replaces the weights by the mean x, to evaluate or save it.
func (s *ScheduleFree) Average() {
	for i, p := range s.params {
		copy(p.Data, s.x[i])
	}
}

// Continue restores the training point y, bit-identical to before Average.
func (s *ScheduleFree) Continue() {
	for i, p := range s.params {
		if s.step > 0 {
			s.between(p.Data, s.z[i], s.x[i])
		} else {
			copy(p.Data, s.x[i])
		}
	}
}

// State returns z, x and the second moment, aliased.
func (s *ScheduleFree) State() State {
	all := slots(s.params, "z", s.z)
	all = append(all, slots(s.params, "x", s.x)...)
	return State{Step: s.step, Sum: s.sum, Slots: append(all, slots(s.params, "v", s.v)...)}
}

// Restore restores the state of a ScheduleFree over the same parameters and
// sets the weights to its training point.
func (s *ScheduleFree) Restore(t State) error {
	if err := s.State().restore(t); err != nil {
		return err
	}
	s.step, s.sum = t.Step, t.Sum
	s.Continue()
	return nil
}
