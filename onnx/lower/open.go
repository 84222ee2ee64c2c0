package lower

import (
	"fmt"
	"reflect"
	"slices"
)

// Open turns the dimensions in which two graphs of one model differ into negative
// numbers, in the first: -1 for each pair of sizes that is the first of its kind, -2
// for the next, and so on, so that equal numbers are equal sizes. The graphs must
// have the same nodes and constants.
func Open(a, b *Graph) error {
	o := opening{sizes: map[[2]int]int{}, to: map[*Value]*Value{}}
	if len(a.Nodes) != len(b.Nodes) || len(a.Inputs) != len(b.Inputs) || len(a.Outputs) != len(b.Outputs) {
		return fmt.Errorf("graphs of two sizes: got %d and %d nodes", len(a.Nodes), len(b.Nodes))
	}
	if err := o.values(a.Inputs, b.Inputs); err != nil {
		return err
	}
	for i, n := range a.Nodes {
		m := b.Nodes[i]
		if err := o.node(n, m); err != nil {
			return fmt.Errorf("graphs of two sizes: node %q (%s): %w", n.Name, n.Op, err)
		}
	}
	return o.values(a.Outputs, b.Outputs)
}

// opening is the state of [Open].
type opening struct {
	sizes map[[2]int]int
	to    map[*Value]*Value
}

// node compares two nodes.
func (o *opening) node(n, m *Node) error {
	p, q := *n, *m
	p.In, p.Out, q.In, q.Out = nil, nil, nil, nil
	if !reflect.DeepEqual(p, q) || len(n.In) != len(m.In) {
		return fmt.Errorf("got %s %q in the other, with other attributes", m.Op, m.Name)
	}
	return o.values(append(slices.Clone(n.In), n.Out), append(slices.Clone(m.In), m.Out))
}

func (o *opening) values(a, b []*Value) error {
	for i, v := range a {
		if err := o.value(v, b[i]); err != nil {
			return err
		}
	}
	return nil
}

// value opens the dimensions of a value, once.
func (o *opening) value(v, w *Value) error {
	if other, ok := o.to[v]; ok {
		if other != w {
			return fmt.Errorf("value %q: got %q and %q in the other", v.Name, other.Name, w.Name)
		}
		return nil
	}
	o.to[v] = w
	if v.Type != w.Type || len(v.Shape) != len(w.Shape) || (v.Const == nil) != (w.Const == nil) {
		return fmt.Errorf("value %q: got %v of %s and %v of %s", v.Name, v.Shape, v.Type, w.Shape, w.Type)
	}
	if v.Const != nil {
		if !slices.Equal(v.Shape, w.Shape) || !slices.Equal(v.Const.Floats, w.Const.Floats) || !slices.Equal(v.Const.Ints, w.Const.Ints) {
			return fmt.Errorf("value %q: got constants that differ", v.Name)
		}
		return nil
	}
	shape := slices.Clone(v.Shape)
	for i, d := range v.Shape {
		pair := [2]int{d, w.Shape[i]}
		if pair[0] == pair[1] {
			continue
		}
		if o.sizes[pair] == 0 {
			o.sizes[pair] = -1 - len(o.sizes)
		}
		shape[i] = o.sizes[pair]
	}
	v.Shape = shape
	return nil
}
