package onnx

import (
	"errors"
	"fmt"
	"slices"
)

// Rows gives a model whose only result, features [N, C, …] as convolutions have
// them, becomes rows of channels under another name, [N, T, C], as an encoder
// gives them (MM-ABI 1.0 §2.2). The positions, T, are in row-major order.
func (m *Model) Rows(name string) (*Model, error) {
	if len(m.Graph.Outputs) != 1 {
		return nil, fmt.Errorf("onnx: rows are made of one result, and there are %d", len(m.Graph.Outputs))
	}
	x := m.Graph.Outputs[0]
	t := x.Type
	if t.Kind != TensorKind || !t.Ranked {
		return nil, fmt.Errorf("onnx: the model does not say of which shape %q is", x.Name)
	}
	if len(t.Dims) < 3 {
		return nil, fmt.Errorf("onnx: rows are made of features [N, C, …], and %q has %d dimensions", x.Name, len(t.Dims))
	}
	if i := slices.IndexFunc(m.Opsets, func(o Opset) bool { return canonical(o.Domain) == "" }); i < 0 || m.Opsets[i].Version < 5 {
		return nil, errors.New("onnx: rows need a Reshape whose shape is an input, of opset 5")
	}
	shape, flat := name+".shape", name+".flat"
	for _, own := range []string{name, shape, flat} {
		if m.mentions(own) {
			return nil, fmt.Errorf("onnx: the model has a %q already", own)
		}
	}
	out := *m.Share()
	g := &out.Graph
	g.Nodes, g.Initializers = slices.Clone(g.Nodes), slices.Clone(g.Initializers)
	from := x.Name
	if len(t.Dims) > 3 {
		g.Constant(Ints(shape, []int64{3}, []int64{0, 0, -1}))
		if out.IRVersion < 4 { // constants are inputs as well
			g.Inputs = append(slices.Clone(g.Inputs), TensorValue(shape, INT64, 3))
		}
		from = g.Add("Reshape", []string{from, shape}, flat)
	}
	g.Add("Transpose", []string{from}, name, IntList("perm", 0, 2, 1))
	rows := Type{Kind: TensorKind, DType: t.DType, Ranked: true, Dims: []Dim{t.Dims[0], positions(t.Dims[2:]), t.Dims[1]}}
	g.Outputs = []Value{{Name: name, Type: rows}}
	return &out, nil
}

// mentions reports whether anything in the model has a name.
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

// positions is the dimension of all positions together: a number where all are
// numbers, the only open one where the others are 1, else one without a name.
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
