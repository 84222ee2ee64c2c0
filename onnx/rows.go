package onnx

import (
	"errors"
	"fmt"
	"slices"
)

// Rows returns a model whose only result, convolution features [N, C, …],
// becomes rows of channels under a new name, [N, T, C], the layout of an
// encoder (MM-ABI 1.0 §2.2). The positions, T, are in row-major order.
func (m *Model) Rows(name string) (*Model, error) {
	if len(m.Graph.Outputs) != 1 {
		return nil, fmt.Errorf("onnx: rows need one result, got %d", len(m.Graph.Outputs))
	}
	x := m.Graph.Outputs[0]
	t := x.Type
	if t.Kind != TensorKind || !t.Ranked {
		return nil, fmt.Errorf("onnx: unknown shape of %q", x.Name)
	}
	if len(t.Dims) < 3 {
		return nil, fmt.Errorf("onnx: rows need features [N, C, …], %q has %d dimensions", x.Name, len(t.Dims))
	}
	if i := slices.IndexFunc(m.Opsets, func(o Opset) bool { return canonical(o.Domain) == "" }); i < 0 || m.Opsets[i].Version < 5 {
		return nil, errors.New("onnx: rows need Reshape of opset 5, whose shape is an input")
	}
	shape, flat := name+".shape", name+".flat"
	for _, added := range []string{name, shape, flat} {
		if m.mentions(added) {
			return nil, fmt.Errorf("onnx: name %q already exists", added)
		}
	}
	out := *m.Share()
	g := &out.Graph
	g.Nodes, g.Initializers = slices.Clone(g.Nodes), slices.Clone(g.Initializers)
	from := x.Name
	if len(t.Dims) > 3 {
		g.Constant(Ints(shape, []int64{3}, []int64{0, 0, -1}))
		if out.IRVersion < 4 { // constants are also inputs
			g.Inputs = append(slices.Clone(g.Inputs), TensorValue(shape, INT64, 3))
		}
		from = g.Add("Reshape", []string{from, shape}, flat)
	}
	g.Add("Transpose", []string{from}, name, IntList("perm", 0, 2, 1))
	rows := Type{Kind: TensorKind, DType: t.DType, Ranked: true, Dims: []Dim{t.Dims[0], positions(t.Dims[2:]), t.Dims[1]}}
	g.Outputs = []Value{{Name: name, Type: rows}}
	return &out, nil
}

// mentions reports whether a name occurs anywhere in the model.
func (m *Model) mentions(name string) (found bool) {
	is := func(n string) { found = found || n == name }
	for _, v := range m.Graph.Inputs {
		is(v.Name)
	}
	m.EachTensor(func(t *Tensor) { is(t.Name) })
	m.EachNode(func(n *Node) {
		for _, out := range n.Outputs {
			is(out)
		}
	})
	return found
}

// positions returns the product of the dimensions: a number if all are numbers,
// the only open one if the others are 1, otherwise one without a name.
func positions(dims []Dim) Dim {
	one := func(d Dim) bool { return d.Param == "" && d.Value == 1 }
	if rest := slices.DeleteFunc(slices.Clone(dims), one); len(rest) == 1 {
		return rest[0]
	}
	var sizes []int64
	for _, d := range dims {
		if d.Param != "" {
			return Dim{Value: Unknown}
		}
		sizes = append(sizes, d.Value)
	}
	if n, ok := elements(sizes); ok {
		return Dim{Value: n}
	}
	return Dim{Value: Unknown}
}
