package net

import (
	"fmt"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// Pass is the memory of a forward and backward pass over up to B samples. It is
// used by one goroutine at a time.
type Pass[F tensor.Float] struct {
	B int

	net    *Net[F]
	pool   *pool.Pool
	values map[string]*value[F]
	ops    []op[F] // one a step
	goes   []bool  // whether the gradient of the step goes anywhere
	spread [][]F   // [B][gradients of all vectors]
	works  []worker[F]
	plans  map[int]*plan[F] // the weight gradients of so many samples
	now    *plan[F]
	add    bool // weight gradients are added

	run struct{ forward, backward, gradients pool.Func } // bound once
}

// value is an input or what a step gives, for all samples.
type value[F tensor.Float] struct {
	Port
	y, dy nn.Matrix[F] // [B·Rows, Cols]; dy has no data where no gradient is wanted
	want  bool
}

// at is the sample's rows of y, slope those of dy.
func (v *value[F]) at(s int) nn.Matrix[F]    { return v.y.Part(s*v.Rows, (s+1)*v.Rows) }
func (v *value[F]) slope(s int) nn.Matrix[F] { return v.dy.Part(s*v.Rows, (s+1)*v.Rows) }

// edge is a value that a step takes.
type edge[F tensor.Float] struct {
	*value[F]
	add bool // its gradient holds what later steps gave it
}

// op is a step at its place in a pass: forward fills the sample's rows of what
// it gives, backward takes their gradient to those of what it takes.
type op[F tensor.Float] interface {
	forward(w *worker[F], sample int)
	backward(w *worker[F], spread []F, sample int)
}

// place is what the ops have in common.
type place[F tensor.Float] struct {
	step *Step
	in   []*edge[F]
	out  *value[F]
}

// worker is the scratch of one thread; it grows to what is asked of it.
type worker[F tensor.Float] struct {
	heads nn.HeadScratch[F]
	conv  nn.ConvScratch[F]
	panel *tensor.Panels[F]
	rows  []F
	mats  [2][]F
}

// row is scratch of n elements.
func (w *worker[F]) row(n int) []F {
	if len(w.rows) < n {
		w.rows = make([]F, n)
	}
	return w.rows[:n]
}

// matrix is one of two scratch matrices.
func (w *worker[F]) matrix(i, rows, cols int) nn.Matrix[F] {
	ld := tensor.Stride(cols)
	if len(w.mats[i]) < rows*ld {
		w.mats[i] = make([]F, rows*ld)
	}
	return nn.Matrix[F]{Data: w.mats[i], Rows: rows, Cols: cols, LD: ld}
}

// NewPass allocates a pass over B samples; p may be nil for one thread. It is
// for the tensors trainable now: Freeze invalidates it.
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

// settle finds which gradients are wanted, makes room for them and gives every
// step its place: a gradient is wanted of what depends on anything that trains,
// or on an input whose gradient is wanted. The last step that takes a value is
// the first on the way back: it sets the value's gradient, and others add.
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
			begun[v] = begun[v] || s.Kind != "queries" // which takes a shape alone
		}
		p.goes[i] = at.out.want
		p.ops[i] = p.place(at)
	}
	clear(p.plans)
}

// needs reports whether the gradient of what s gives is wanted.
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

// In is the input of all samples, [B·Rows, Cols], filled by the caller before
// Forward. It panics where there is none of that name, as do the like.
func (p *Pass[F]) In(name string) nn.Matrix[F] { return p.input(name).y }

// WantInput asks Backward for the gradient of an input.
func (p *Pass[F]) WantInput(name string) {
	if v := p.input(name); !v.want {
		v.want = true
		p.settle()
	}
}

// InGrad is the gradient of an input, [B·Rows, Cols], after Backward. WantInput
// must have asked for it.
func (p *Pass[F]) InGrad(name string) nn.Matrix[F] {
	v := p.input(name)
	if !v.want {
		panic("net: nobody asked for the gradient of input " + name)
	}
	return v.dy
}

// Out is an output of all samples, [B·Rows, Cols], after Forward.
func (p *Pass[F]) Out(name string) nn.Matrix[F] { return p.output(name).y }

// OutGrad is the gradient of an output, [B·Rows, Cols], filled by the caller
// before each Backward, which uses it as scratch.
func (p *Pass[F]) OutGrad(name string) nn.Matrix[F] {
	v := p.output(name)
	if v.dy.Data == nil { // nothing below trains: a caller may fill it all the same
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
	panic("net: no input " + name)
}

func (p *Pass[F]) output(name string) *value[F] {
	step, ok := p.net.Output(name)
	if !ok {
		panic("net: no output " + name)
	}
	return p.values[step]
}

// Forward computes the outputs of the first n samples.
func (p *Pass[F]) Forward(n int) {
	p.check(n)
	each(p.pool, n, p.run.forward)
}

// Backward takes the gradients of the outputs of the first n samples, on which
// Forward has just been, to those of the weights, which replace what was there
// or are added to it, and to those of the inputs that are wanted. The same bits
// come out for any number of threads.
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
		panic(fmt.Sprintf("net: a pass over %d of %d samples", n, p.B))
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

// each does the indices below n on the threads, one at a time.
func each(p *pool.Pool, n int, f pool.Func) {
	if p == nil {
		f(0, 0, n)
		return
	}
	p.For(n, 1, f)
}
