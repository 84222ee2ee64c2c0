// Package optim updates weights by their gradients: [AdamW], [Lion],
// [ScheduleFree] AdamW and [Muon], the learning-rate [Schedule], and the global
// gradient norm.
//
// [Gauge.Norm] measures the gradients of all [Param]s before clipping, and the
// trainer derives a factor from the norm. An optimizer's Step applies the
// factor, decays and updates the weights. Each optimizer splits its work over a
// pool into parts that depend only on the shapes, and every element is computed
// only from that element or matrix: the result is bit-identical for any number
// of threads. Checkpoints store [State].
package optim

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
)

// Param is one tensor to train.
type Param struct {
	Name       string
	Shape      []int // outermost first
	Data, Grad []float32
	// Decay enables weight decay: for matrices, not for gains.
	Decay bool
	// Hidden marks a matrix between activations, as opposed to an embedding or
	// a head: Muon orthogonalizes these.
	Hidden bool
	// Rate multiplies the learning rate; 0 means 1.
	Rate float64
}

func (p *Param) rate(r float64) float64 {
	if p.Rate == 0 {
		return r
	}
	return r * p.Rate
}

// State is the state of an optimizer between steps.
type State struct {
	Step int     // steps taken
	Sum  float64 // schedule-free: the sum of squared rates
	// Slots are its vectors, named "NAME.KIND" after their parameter. They
	// alias the optimizer's memory.
	Slots []Slot
}

// Slot is one named vector of a State.
type Slot struct {
	Name string
	Data []float32
}

// restore copies the slots of s into those of live, which must agree in name
// and length.
func (live State) restore(s State) error {
	if s.Step < 0 || !(s.Sum >= 0) {
		return fmt.Errorf("optimizer state: negative step %d or sum %v", s.Step, s.Sum)
	}
	if len(s.Slots) != len(live.Slots) {
		return fmt.Errorf("optimizer state has %d vectors, want %d", len(s.Slots), len(live.Slots))
	}
	for i, slot := range live.Slots {
		if s.Slots[i].Name != slot.Name || len(s.Slots[i].Data) != len(slot.Data) {
			return fmt.Errorf("optimizer state has %d elements of %q, want %d of %q",
				len(s.Slots[i].Data), s.Slots[i].Name, len(slot.Data), slot.Name)
		}
	}
	for i, slot := range live.Slots {
		copy(slot.Data, s.Slots[i].Data)
	}
	return nil
}

// span is a part of a parameter that one thread updates at a time.
type span struct{ param, lo, hi int }

// spanSize is the largest span, a multiple of the vector width.
const spanSize = 1 << 14

// cut splits params into spans.
func cut(params []Param) []span {
	var all []span
	for i, p := range params {
		for lo := 0; lo < len(p.Data); lo += spanSize {
			all = append(all, span{i, lo, min(lo+spanSize, len(p.Data))})
		}
	}
	return all
}

// zeros allocates one zero vector for every parameter.
func zeros(params []Param) [][]float32 {
	all := make([][]float32, len(params))
	for i, p := range params {
		all[i] = make([]float32, len(p.Data))
	}
	return all
}

// slots returns one named vector per parameter.
func slots(params []Param, kind string, data [][]float32) []Slot {
	var all []Slot
	for i, d := range data {
		all = append(all, Slot{params[i].Name + "." + kind, d})
	}
	return all
}

// Gauge measures gradients without allocating.
type Gauge struct {
	params []Param
	spans  []span
	sums   []float64
	pool   *pool.Pool
	run    pool.Func
}

// NewGauge returns a gauge of the gradients of params. If p is nil, it uses one
// thread.
func NewGauge(params []Param, p *pool.Pool) *Gauge {
	g := &Gauge{params: params, spans: cut(params), pool: p}
	g.sums = make([]float64, len(g.spans))
	g.run = g.square
	return g
}

// Norm returns the Euclidean norm of all gradients. It is NaN or infinite if
// any gradient is.
func (g *Gauge) Norm() float64 {
	each(g.pool, len(g.spans), g.run)
	var sum float64
	for _, s := range g.sums {
		sum += s
	}
	return math.Sqrt(sum)
}

func (g *Gauge) square(_, from, to int) {
	for i := from; i < to; i++ {
		s := g.spans[i]
		v := g.params[s.param].Grad[s.lo:s.hi]
		g.sums[i] = float64(tensor.Inner(v, v))
	}
}

// each runs n parts on the pool, or in order if p is nil.
func each(p *pool.Pool, n int, f pool.Func) {
	if p == nil {
		f(0, 0, n)
		return
	}
	p.For(n, 1, f)
}
