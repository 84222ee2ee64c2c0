package net

import (
	"fmt"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// Pass is a forward and backward pass over up to B samples. It is for one
// goroutine at a time.
type Pass[F tensor.Float] struct {
	B int

	net    *Net[F]
	pool   *pool.Pool
	values map[string]*value[F]
	ops    []op[F] // one per step
	goes   []bool  // whether the step propagates a gradient
	spread [][]F   // [B][gradients of all vectors]
	works  []worker[F]
	plans  map[int]*plan[F] // weight gradients by number of samples
	now    *plan[F]
	add    bool // add to the weight gradients

	run struct{ forward, backward, gradients pool.Func } // bound once
}

// value is an input or the output of a step, for all samples.
type value[F tensor.Float] struct {
	Port
	y, dy nn.Matrix[F] // [B·Rows, Cols]; dy is empty if its gradient is not needed
	want  bool
}

// at returns the sample's rows of y, slope those of dy.
func (v *value[F]) at(s int) nn.Matrix[F]    { return v.y.Part(s*v.Rows, (s+1)*v.Rows) }
func (v *value[F]) slope(s int) nn.Matrix[F] { return v.dy.Part(s*v.Rows, (s+1)*v.Rows) }

// edge is a value used as an input of a step.
type edge[F tensor.Float] struct {
	*value[F]
	add bool // add to the gradient, which later steps have set
}

// op computes a step in a pass: forward computes the sample's rows of the
// output, backward propagates their gradient to the inputs.
type op[F tensor.Float] interface {
	forward(w *worker[F], sample int)
	backward(w *worker[F], spread []F, sample int)
}

// place holds the fields common to all ops.
type place[F tensor.Float] struct {
	step *Step
	in   []*edge[F]
	out  *value[F]
}

// worker is the scratch of one thread. It grows as needed.
type worker[F tensor.Float] struct {
	heads nn.HeadScratch[F]
	conv  nn.ConvScratch[F]
	panel *tensor.Panels[F]
	rows  []F
	mats  [2][]F
}

// row returns a buffer of n elements.
func (w *worker[F]) row(n int) []F {
	if len(w.rows) < n {
		w.rows = make([]F, n)
	}
	return w.rows[:n]
}

// matrix returns one of two scratch matrices.
func (w *worker[F]) matrix(i, rows, cols int) nn.Matrix[F] {
	ld := tensor.Stride(cols)
	if len(w.mats[i]) < rows*ld {
		w.mats[i] = make([]F, rows*ld)
	}
	return nn.Matrix[F]{Data: w.mats[i], Rows: rows, Cols: cols, LD: ld}
}

// NewPass allocates a pass over B samples. If p is nil, it uses one thread. The
// pass is for the tensors that train now: Freeze invalidates it.
func (n *Net[F]) NewPass(p *pool.Pool, B int) *Pass[F] {
	s := &Pass[F]{B: B, net: n, pool: p, values: map[string]*value[F]{}, plans: map[int]*plan[F]{}}
	for _, in := range n.config.Inputs {
		s.values[in.Name] = &value[F]{Port: in, y: nn.NewMatrix[F](B*in.Rows, in.Cols)}
	}
	for i := range n.steps {
		out := n.steps[i].Gives
		s.values[out.Name] = &value[F]{Port: out, y: nn.NewMatrix[F](B*out.Rows, out.Cols)}
	}
	for range B {
		s.spread = append(s.spread, n.params.Spread())
	}
	threads := 1
	if p != nil {
		threads = p.Threads()
	}
	for range threads {
		s.works = append(s.works, worker[F]{panel: nn.NewGradientScratch[F]()})
	}
	s.settle()
	s.run.forward, s.run.backward, s.run.gradients = s.forwards, s.backwards, s.gradients
	return s
}

// settle determines which gradients are needed, allocates them and creates the
// ops. A gradient is needed if the value depends on a trained tensor or on an
// input whose gradient is requested. The last step that uses a value comes
// first in the backward pass: it sets the value's gradient, and the other steps
// add.
func (p *Pass[F]) settle() {
	steps := p.net.steps
	for i := range steps {
		p.values[steps[i].Gives.Name].want = p.needs(&steps[i])
	}
	p.ops, p.goes = make([]op[F], len(steps)), make([]bool, len(steps))
	begun := map[*value[F]]bool{}
	for _, name := range p.net.outputs {
		begun[p.values[name]] = true
	}
	for _, v := range p.values {
		if v.want && v.dy.Data == nil {
			v.dy = nn.NewMatrix[F](p.B*v.Rows, v.Cols)
		}
	}
	for i := len(steps) - 1; i >= 0; i-- {
		s := &steps[i]
		at := place[F]{step: s, out: p.values[s.Gives.Name]}
		for _, t := range s.Takes {
			v := p.values[t.Name]
			at.in = append(at.in, &edge[F]{value: v, add: begun[v]})
			begun[v] = begun[v] || s.Kind != "queries" // which uses only the shape
		}
		p.goes[i] = at.out.want
		p.ops[i] = p.place(at)
	}
	clear(p.plans)
}

// needs reports whether the gradient of the output of s is needed.
func (p *Pass[F]) needs(s *Step) bool {
	for _, t := range s.Takes {
		if p.values[t.Name].want && s.Kind != "queries" {
			return true
		}
	}
	for _, name := range s.tensors() {
		if t := p.net.tensor(name); t != nil && t.Grad != nil {
			return true
		}
	}
	return false
}

// In returns the input of all samples, [B·Rows, Cols], which the caller fills
// before Forward. It and the methods below panic if the name is unknown.
func (p *Pass[F]) In(name string) nn.Matrix[F] { return p.input(name).y }

// WantInput requests the gradient of an input from Backward.
func (p *Pass[F]) WantInput(name string) {
	if v := p.input(name); !v.want {
		v.want = true
		p.settle()
	}
}

// InGrad returns the gradient of an input, [B·Rows, Cols], after Backward. The
// caller must have called WantInput.
func (p *Pass[F]) InGrad(name string) nn.Matrix[F] {
	v := p.input(name)
	if !v.want {
		panic("net: gradient not requested for input " + name)
	}
	return v.dy
}

// Out returns an output of all samples, [B·Rows, Cols], after Forward.
func (p *Pass[F]) Out(name string) nn.Matrix[F] { return p.output(name).y }

// OutGrad returns the gradient of an output, [B·Rows, Cols], which the caller
// fills before each Backward. Backward overwrites it.
func (p *Pass[F]) OutGrad(name string) nn.Matrix[F] {
	v := p.output(name)
	if v.dy.Data == nil { // nothing below trains, but a caller may still fill it
		v.dy = nn.NewMatrix[F](p.B*v.Rows, v.Cols)
	}
	return v.dy
}

func (p *Pass[F]) input(name string) *value[F] {
	for _, in := range p.net.config.Inputs {
		if in.Name == name {
			return p.values[name]
		}
	}
	panic("net: unknown input " + name)
}

func (p *Pass[F]) output(name string) *value[F] {
	step, ok := p.net.Output(name)
	if !ok {
		panic("net: unknown output " + name)
	}
	return p.values[step]
}

// Forward computes the outputs of the first n samples.
func (p *Pass[F]) Forward(n int) {
	p.check(n)
	each(p.pool, n, p.run.forward)
}

// Backward propagates the gradients of the outputs of the first n samples,
// which Forward must have computed, to the requested inputs and to the weights,
// whose gradients are replaced or, if add is set, added to. The result is
// bit-identical for any number of threads.
func (p *Pass[F]) Backward(n int, add bool) {
	p.check(n)
	p.add = add
	if !add {
		p.net.params.ClearVectors()
	}
	each(p.pool, n, p.run.backward)
	if p.now = p.plans[n]; p.now == nil {
		p.now = p.plan(n)
		p.plans[n] = p.now
	}
	each(p.pool, p.now.len(), p.run.gradients)
	p.net.params.Reduce(p.spread[:n])
}

func (p *Pass[F]) check(n int) {
	if n < 1 || n > p.B {
		panic(fmt.Sprintf("net: pass over %d of %d samples", n, p.B))
	}
}

func (p *Pass[F]) forwards(thread, from, to int) {
	for s := from; s < to; s++ {
		for _, o := range p.ops {
			o.forward(&p.works[thread], s)
		}
	}
}

func (p *Pass[F]) backwards(thread, from, to int) {
	for s := from; s < to; s++ {
		clear(p.spread[s])
		for i := len(p.ops) - 1; i >= 0; i-- {
			if p.goes[i] {
				p.ops[i].backward(&p.works[thread], p.spread[s], s)
			}
		}
	}
}

func (p *Pass[F]) gradients(thread, from, to int) {
	for i := from; i < to; i++ {
		p.now.compute(&p.works[thread], i, p.add)
	}
}

// each calls f for the indices below n on the threads, one at a time.
func each(p *pool.Pool, n int, f pool.Func) {
	if p == nil {
		f(0, 0, n)
		return
	}
	p.For(n, 1, f)
}
