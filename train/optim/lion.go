package optim

import "mm-abi.org/mm/core/pool"

// LionOptions are Lion's constants. Comments state the default of a zero field.
type LionOptions struct {
	Beta1 float64 // 0.9
	Beta2 float64 // 0.99
	Decay float64 // weight decay of parameters with Decay; 0: none
}

// Lion changes every weight by the same amount, in the direction of the sign of
// a momentum (Chen et al., arXiv 2302.06675):
//
//	w = w - rate·decay·w - rate·sign(β1·m + (1-β1)·g)
//	m = β2·m + (1-β2)·g
type Lion struct {
	opt    LionOptions
	params []Param
	m      [][]float32
	step   int

	spans       []span
	pool        *pool.Pool
	run         pool.Func
	rate, scale float64
}

// NewLion returns a Lion over params. If p is nil, it uses one thread.
func NewLion(params []Param, opt LionOptions, p *pool.Pool) *Lion {
	if opt.Beta1 == 0 {
		opt.Beta1 = 0.9
	}
	if opt.Beta2 == 0 {
		opt.Beta2 = 0.99
	}
	l := &Lion{opt: opt, params: params, m: zeros(params), spans: cut(params), pool: p}
	l.run = l.spansOf
	return l
}

// Step updates the weights by their gradients times scale at learning rate
// rate.
func (l *Lion) Step(rate, scale float64) {
	l.step++
	l.rate, l.scale = rate, scale
	each(l.pool, len(l.spans), l.run)
}

func (l *Lion) spansOf(_, from, to int) {
	for _, s := range l.spans[from:to] {
		p := &l.params[s.param]
		r, keep := float32(p.rate(l.rate)), float32(1)
		if p.Decay {
			keep = float32(1 - p.rate(l.rate)*l.opt.Decay)
		}
		l.move(p.Data[s.lo:s.hi], p.Grad[s.lo:s.hi], l.m[s.param][s.lo:s.hi], r, keep)
	}
}

func (l *Lion) move(w, g, m []float32, rate, keep float32) {
	b1, b2, scale := float32(l.opt.Beta1), float32(l.opt.Beta2), float32(l.scale)
	i1, i2 := float32(1-l.opt.Beta1), float32(1-l.opt.Beta2)
	g, m = g[:len(w)], m[:len(w)]
	for i := range w {
		gi := g[i] * scale
		step := float32(0)
		switch u := b1*m[i] + i1*gi; {
		case u > 0:
			step = rate
		case u < 0:
			step = -rate
		}
		w[i] = w[i]*keep - step
		m[i] = b2*m[i] + i2*gi
	}
}

// State returns the momentum, aliased.
func (l *Lion) State() State { return State{Step: l.step, Slots: slots(l.params, "m", l.m)} }

// Restore restores the state of a Lion over the same parameters.
func (l *Lion) Restore(s State) error {
	if err := l.State().restore(s); err != nil {
		return err
	}
	l.step = s.Step
	return nil
}
