// Package optim moves weights by their gradients: [AdamW], [Lion],
// [ScheduleFree] AdamW and [Muon], the learning-rate [Schedule], and the global
// gradient norm.
//
// The way of a step: [Gauge.Norm] measures the gradients of all [Param]s before
// anything is clipped; the trainer turns that into a factor; an optimizer's
// Step applies the factor, decays what is to decay and moves the weights. Each
// splits its work over a pool into pieces that depend on the shapes alone, and
// every element is computed from that element, or that matrix, alone: the same
// bits for any number of threads. [State] is what a checkpoint keeps.
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
	// Decay tells whether weight decay applies: to matrices, not to gains.
	Decay bool
	// Hidden marks a matrix between activations, as opposed to an embedding or a
	// head: Muon orthogonalises these.
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

// State is the memory of an optimizer between steps.
type State struct {
	Step int     // steps taken
	Sum  float64 // schedule-free: the sum of squared rates
	// Slots are its vectors, named "NAME.KIND" after their parameter. They alias
	// the optimizer's memory.
	Slots []Slot
}

// Slot is one named vector of a State.
type Slot struct {
	Name string
	Data []float32
}

// restore copies the slots of s into those of own, which must agree in name
// and length.
func (own State) restore(s State) error {
	if s.Step < 0 || !(s.Sum >= 0) {
		return fmt.Errorf("optimizer state: step %d, sum %v", s.Step, s.Sum)
	}
	if len(s.Slots) != len(own.Slots) {
		return fmt.Errorf("optimizer state has %d vectors, want %d", len(s.Slots), len(own.Slots))
	}
	for i, slot := range own.Slots {
		if s.Slots[i].Name != slot.Name || len(s.Slots[i].Data) != len(slot.Data) {
			return fmt.Errorf("optimizer state has %d elements of %q where %d of %q belong",
				len(s.Slots[i].Data), s.Slots[i].Name, len(slot.Data), slot.Name)
		}
	}
	for i, slot := range own.Slots {
		copy(slot.Data, s.Slots[i].Data)
	}
	return nil
}

// span is a piece of a parameter: what one thread updates at a time.
type span struct{ param, lo, hi int }

// spanSize is the largest piece, a multiple of the vector width.
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

// zeros makes one vector of zeros for every parameter.
func zeros(params []Param) [][]float32 {
	all := make([][]float32, len(params))
	for i, p := range params {
		all[i] = make([]float32, len(p.Data))
	}
	return all
}

// slots names one vector per parameter.
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

// NewGauge measures the gradients of params on p, which may be nil.
func NewGauge(params []Param, p *pool.Pool) *Gauge {
	g := &Gauge{params: params, spans: cut(params), pool: p}
	g.sums = make([]float64, len(g.spans))
	g.run = g.square
	return g
}

// Norm is the Euclidean norm of all gradients together: NaN or infinite where
// any of them is.
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

// each does n pieces on the pool, or in order without one.
func each(p *pool.Pool, n int, f pool.Func) {
	if p == nil {
		f(0, 0, n)
		return
	}
	p.For(n, 1, f)
}
