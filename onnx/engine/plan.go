package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/op"
)

// body is a graph in executable form. Its values are numbered.
type body struct {
	slots      int
	inputs     []onnx.Value
	inputSlots []int // slots of the inputs
	outputs    []int
	results    []string
	steps      []*step
	constant   []*kernel.Array // by slot; nil for values of a run
	captures   []capture       // values of the enclosing graph
	values     []*kernel.Array // by slot, of the current run
}

// capture is a value that a graph reads from the enclosing one.
type capture struct{ outer, inner int }

// step is a node.
type step struct {
	node   *onnx.Node
	kernel kernel.Func
	in     []int // slots; -1 if omitted
	out    []int // slots; -1 if unused
	fixed  []bool
	last   []int // slots without later readers
	subs   map[string]*body
	cache  any
	call   *kernel.Call // created by the first run

	// Fused into a convolution: scale and shift of its channels that are not
	// yet baked into the weights, and the function of its sums.
	channels *affine
	after    *kernel.After
	blocked  *laid // the result is blocked

	// Fused into a product.
	then       func(dst, x []float32)
	transposed bool // the right factor is read transposed
}

// planner builds the bodies of a model.
type planner struct {
	p     *Program
	ctx   context.Context
	nodes int
	err   []error // unsupported parts, each once
	seen  map[string]bool
}

// plan builds the program's main body.
func (p *Program) plan(ctx context.Context, m *onnx.Model) error {
	pl := &planner{p: p, ctx: ctx, seen: make(map[string]bool)}
	p.opset = opsetOf(m)
	if err := supported(m); err != nil {
		return err
	}
	s := newScope(nil)
	g, err := inlined(m, p.opt.Nodes)
	if err != nil {
		return err
	}
	g.Inputs = m.Inputs()
	main, err := pl.body(g, s)
	if err == nil {
		err = errors.Join(pl.err...)
	}
	if err == nil {
		err = p.settle(ctx, main)
	}
	p.main = main
	return err
}

// scope numbers the values of a graph.
type scope struct {
	up    *scope
	slots map[string]int
	body  *body
}

func newScope(up *scope) *scope {
	return &scope{up, make(map[string]int), &body{}}
}

// define assigns a slot to a name.
func (s *scope) define(name string) int {
	n := s.body.slots
	s.slots[name] = n
	s.body.slots++
	s.body.constant = append(s.body.constant, nil)
	return n
}

// find returns the slot of a name, captured from an enclosing graph if
// necessary.
func (s *scope) find(name string) (int, bool) {
	if n, ok := s.slots[name]; ok {
		return n, true
	}
	if s.up == nil {
		return 0, false
	}
	outer, ok := s.up.find(name)
	if !ok {
		return 0, false
	}
	inner := s.define(name)
	s.body.constant[inner] = s.up.body.constant[outer]
	if s.body.constant[inner] == nil {
		s.body.captures = append(s.body.captures, capture{outer, inner})
	}
	return inner, true
}

// body plans a graph.
func (pl *planner) body(g *onnx.Graph, s *scope) (*body, error) {
	b := s.body
	b.inputs = g.Inputs
	for _, v := range g.Inputs {
		b.inputSlots = append(b.inputSlots, s.define(v.Name))
	}
	if len(g.Sparse) > 0 {
		return nil, errors.New("sparse constants are not supported")
	}
	for i := range g.Initializers {
		t := &g.Initializers[i]
		a, err := pl.p.arena.FromTensor(t)
		if err != nil {
			return nil, fmt.Errorf("constant %q: %w", t.Name, err)
		}
		b.constant[s.define(t.Name)] = a
	}
	for _, i := range needed(g) {
		if err := pl.step(&g.Nodes[i], s); err != nil {
			return nil, err
		}
	}
	for _, v := range g.Outputs {
		n, ok := s.find(v.Name)
		if !ok {
			return nil, fmt.Errorf("no node produces %q", v.Name)
		}
		b.outputs, b.results = append(b.outputs, n), append(b.results, v.Name)
	}
	if len(pl.err) > 0 {
		return b, nil // refused already: fusion requires supported operators
	}
	if err := b.convolutions(pl.p, s.up == nil); err != nil {
		return nil, err
	}
	b.fuse(pl.p)
	b.live()
	return b, nil
}

// needed returns the nodes that results depend on, in the graph's order, which
// is topological because the model has been checked.
func needed(g *onnx.Graph) []int {
	want := make(map[string]bool)
	for _, v := range g.Outputs {
		want[v.Name] = true
	}
	var list []int
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		n := &g.Nodes[i]
		if !slices.ContainsFunc(n.Outputs, func(name string) bool { return name != "" && want[name] }) {
			continue
		}
		list = append(list, i)
		take(n, want)
	}
	slices.Reverse(list)
	return list
}

// take marks every name that a node reads, also in its subgraphs.
func take(n *onnx.Node, want map[string]bool) {
	for _, name := range n.Inputs {
		want[name] = true
	}
	for _, a := range n.Attributes {
		if a.Graph == nil {
			continue
		}
		for i := range a.Graph.Nodes {
			take(&a.Graph.Nodes[i], want)
		}
		for _, v := range a.Graph.Outputs {
			want[v.Name] = true
		}
	}
}

// step plans a node, as a constant if it can be folded.
func (pl *planner) step(n *onnx.Node, s *scope) error {
	if err := pl.ctx.Err(); err != nil {
		return err
	}
	if pl.nodes++; pl.nodes > pl.p.opt.Nodes {
		return fmt.Errorf("more than %d nodes", pl.p.opt.Nodes)
	}
	kernel, err := op.Check(n, pl.p.opset)
	if err != nil {
		if !pl.seen[err.Error()] {
			pl.seen[err.Error()] = true
			pl.err = append(pl.err, err)
		}
	}
	st := &step{node: detached(n), kernel: kernel, subs: make(map[string]*body)}
	constant := true
	for _, name := range n.Inputs {
		slot := -1
		if name != "" {
			k, ok := s.find(name)
			if !ok {
				return fmt.Errorf("no node produces %q", name)
			}
			slot = k
		}
		st.in = append(st.in, slot)
		st.fixed = append(st.fixed, slot < 0 || s.body.constant[slot] != nil)
		constant = constant && st.fixed[len(st.fixed)-1]
	}
	for i := range n.Attributes {
		if g := n.Attributes[i].Graph; g != nil {
			sub, err := pl.body(g, newScope(s))
			if err != nil {
				return fmt.Errorf("node %q: %w", n.Name, err)
			}
			st.subs[n.Attributes[i].Name] = sub
			constant = false
		}
	}
	for _, name := range n.Outputs {
		slot := -1
		if name != "" {
			slot = s.define(name)
		}
		st.out = append(st.out, slot)
	}
	if constant && len(pl.err) == 0 {
		done, err := pl.fold(st, s.body)
		if done || err != nil {
			return err
		}
	}
	s.body.steps = append(s.body.steps, st)
	return nil
}

// detached copies the parts of a node that alias the file, which may be closed
// before a run. Subgraphs have separate bodies.
func detached(n *onnx.Node) *onnx.Node {
	c := *n
	c.Attributes = slices.Clone(n.Attributes)
	for i := range c.Attributes {
		a := &c.Attributes[i]
		a.String, a.Graph, a.Strings = slices.Clone(a.String), nil, nil
		if a.Tensor == nil {
			continue
		}
		t := onnx.Tensor{Name: a.Tensor.Name, DType: a.Tensor.DType, Dims: a.Tensor.Dims, External: a.Tensor.External}
		if data, err := a.Tensor.Bytes(); err == nil {
			t.Raw = slices.Clone(data)
		}
		a.Tensor = &t
	}
	return &c
}

// fold runs a node whose inputs are constants. A node that fails is left for
// run time: it may never be reached.
func (pl *planner) fold(st *step, b *body) (bool, error) {
	live := pl.p.arena.Live()
	out, err := pl.p.apply(pl.ctx, st, b.constant)
	if err != nil {
		pl.p.arena.Rewind(live)
		st.call, st.cache = nil, nil
		if errors.Is(err, ErrInternal) {
			return false, err
		}
		return false, nil
	}
	for i, slot := range st.out {
		if slot >= 0 {
			b.constant[slot] = out[i]
		} else {
			pl.p.arena.Release(out[i])
		}
	}
	return true, nil
}

// keep assigns a slot to a constant.
func (b *body) keep(a *kernel.Array) int {
	b.slots++
	b.constant = append(b.constant, a)
	return b.slots - 1
}

// live finds for each value the step that reads it last.
func (b *body) live() {
	last := make([]int, b.slots)
	for i := range last {
		last[i] = -1
	}
	for i, st := range b.steps {
		for _, slot := range slices.Concat(st.in, st.out) {
			if slot >= 0 {
				last[slot] = i
			}
		}
		for _, sub := range st.subs {
			for _, c := range sub.captures {
				last[c.outer] = i
			}
		}
	}
	for _, slot := range b.outputs {
		last[slot] = -1
	}
	for slot, i := range last {
		if i >= 0 && b.constant[slot] == nil {
			b.steps[i].last = append(b.steps[i].last, slot)
		}
	}
}
