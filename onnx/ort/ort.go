// Package ort reads models in ONNX Runtime's own format (.ort, a FlatBuffer) as ONNX:
// those that its converter wrote from ONNX. Kernels that a build of ONNX Runtime
// compiled into nodes are refused, as are elements outside of the file.
package ort

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
)

// Limits of a model.
const (
	maxDepth = 16
	maxDims  = 64
)

// Detect reports whether data begins as a model in ONNX Runtime's format.
func Detect(data []byte) bool { return len(data) >= 8 && string(data[4:8]) == "ORTM" }

// Parse reads a model. Its tensors alias data.
func Parse(data []byte) (*onnx.Model, error) {
	if !Detect(data) {
		return nil, errors.New("not a model in ONNX Runtime's format: missing identifier ORTM")
	}
	b := &buffer{data: data, left: budget}
	m := b.table(0).table(1)
	out := &onnx.Model{IRVersion: m.int64(0, 0), Producer: m.text(2), ProducerVersion: m.text(3), Domain: m.text(4), Version: m.int64(5, 0)}
	m.each(1, func(at int) {
		t := b.table(at)
		out.Opsets = append(out.Opsets, onnx.Opset{Domain: t.text(0), Version: t.int64(1, 0)})
	})
	g := m.table(7)
	if b.err == nil && g.b == nil {
		b.fail("missing graph")
	}
	r := &reader{b: b, domains: map[string]bool{}}
	out.Graph = r.graph(g, "main", 0)
	if b.err != nil {
		return nil, b.err
	}
	// The converter lists the operator sets of all domains that it has.
	out.Opsets = slices.DeleteFunc(out.Opsets, func(o onnx.Opset) bool { return o.Domain != "" && !r.domains[o.Domain] })
	return out, nil
}

// reader reads graphs.
type reader struct {
	b       *buffer
	domains map[string]bool // of nodes
}

// graph reads a graph.
func (r *reader) graph(t table, name string, depth int) (g onnx.Graph) {
	g.Name = name
	if depth > maxDepth {
		r.b.fail("more than %d graphs in one another", maxDepth)
		return g
	}
	values := map[string]onnx.Value{}
	t.each(1, func(at int) {
		v := r.value(r.b.table(at))
		values[v.Name] = v
	})
	t.each(0, func(at int) { g.Initializers = append(g.Initializers, r.tensor(r.b.table(at))) })
	if at, n := t.vector(7, 4); at != 0 && n > 0 {
		r.b.fail("unsupported sparse initializers")
	}
	t.each(2, func(at int) { g.Nodes = append(g.Nodes, r.node(r.b.table(at), depth)) })
	named := func(slot int) (out []onnx.Value) {
		for _, name := range t.texts(slot) {
			v, ok := values[name]
			if !ok {
				v = onnx.Value{Name: name}
			}
			out = append(out, v)
		}
		return out
	}
	g.Inputs, g.Outputs = named(5), named(6)
	g.Nodes = sorted(g.Nodes)
	return g
}

// sorted moves nodes behind those whose outputs they read: the format orders them by
// their index instead.
func sorted(nodes []onnx.Node) []onnx.Node {
	maker, inputs := map[string]int{}, make([][]string, len(nodes))
	for i, n := range nodes {
		inputs[i] = reads(&nodes[i])
		for _, name := range n.Outputs {
			if name != "" {
				maker[name] = i
			}
		}
	}
	state := make([]byte, len(nodes)) // 1: begun, 2: done
	out := make([]onnx.Node, 0, len(nodes))
	type frame struct{ node, next int }
	for i := range nodes {
		stack := []frame{{i, 0}}
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if state[f.node] == 2 {
				stack = stack[:len(stack)-1]
				continue
			}
			state[f.node] = 1
			if f.next == len(inputs[f.node]) {
				state[f.node] = 2
				out = append(out, nodes[f.node])
				stack = stack[:len(stack)-1]
				continue
			}
			name := inputs[f.node][f.next]
			f.next++
			if from, ok := maker[name]; ok && state[from] == 0 {
				stack = append(stack, frame{from, 0})
			}
		}
	}
	return out
}

// reads returns the values that a node and its graphs read.
func reads(n *onnx.Node) []string {
	out := slices.Clone(n.Inputs)
	for i := range n.Attributes {
		if g := n.Attributes[i].Graph; g != nil {
			for j := range g.Nodes {
				out = append(out, reads(&g.Nodes[j])...)
			}
			for _, v := range g.Outputs {
				out = append(out, v.Name)
			}
		}
	}
	return out
}

// value reads the type of a value.
func (r *reader) value(t table) onnx.Value {
	v := onnx.Value{Name: t.text(0)}
	info := t.table(2)
	if info.byte(1) != 1 { // of a sequence or a map: unknown
		return v
	}
	tensor := info.table(2)
	v.Type = onnx.Type{Kind: onnx.TensorKind, DType: onnx.DType(tensor.int32(0))}
	shape := tensor.table(1)
	if shape.b == nil {
		return v
	}
	v.Type.Ranked = true
	shape.each(0, func(at int) {
		d := r.b.table(at).table(0)
		dim := onnx.Dim{Value: onnx.Unknown}
		switch d.byte(0) {
		case 1:
			dim.Value = d.int64(1, 0)
		case 2:
			dim.Param = d.text(2)
		}
		v.Type.Dims = append(v.Type.Dims, dim)
	})
	if len(v.Type.Dims) > maxDims {
		r.b.fail("value %.64q of %d dimensions", v.Name, len(v.Type.Dims))
	}
	return v
}

// tensor reads a tensor.
func (r *reader) tensor(t table) onnx.Tensor {
	out := onnx.Tensor{Name: t.text(0), DType: onnx.DType(t.int32(3)), Dims: r.longs(t, 2), Raw: t.raw(4)}
	if t.int64(6, -1) >= 0 {
		r.b.fail("unsupported elements of tensor %.64q outside of the file", out.Name)
	}
	for _, s := range t.texts(5) {
		out.Strings = append(out.Strings, []byte(s))
	}
	if len(out.Strings) == 0 && out.Raw == nil {
		out.Raw = []byte{}
	}
	if len(out.Dims) > maxDims {
		r.b.fail("tensor %.64q of %d dimensions", out.Name, len(out.Dims))
	}
	return out
}

// longs reads a vector of 64-bit numbers.
func (r *reader) longs(t table, slot int) (out []int64) {
	at, n := t.vector(slot, 8)
	if t.b == nil || !r.b.spend(8*n) {
		return nil
	}
	for i := range n {
		if x := r.b.at(at+8*i, 8); x != nil {
			out = append(out, int64(binary.LittleEndian.Uint64(x)))
		}
	}
	return out
}

// node reads a node.
func (r *reader) node(t table, depth int) onnx.Node {
	n := onnx.Node{Name: t.text(0), Domain: t.text(2), Op: t.text(5), Inputs: t.texts(8), Outputs: t.texts(9)}
	if t.int32(6) != 0 {
		r.b.fail("unsupported node %.64q, which a build of ONNX Runtime compiled", n.Name)
	}
	r.domains[n.Domain] = true
	t.each(10, func(at int) { n.Attributes = append(n.Attributes, r.attribute(r.b.table(at), depth)) })
	return n
}

// attribute reads an attribute.
func (r *reader) attribute(t table, depth int) onnx.Attribute {
	a := onnx.Attribute{Name: t.text(0), Type: onnx.AttributeType(t.int32(2))}
	switch a.Type {
	case onnx.AttrFloat:
		a.Float = math.Float32frombits(uint32(t.int32(3)))
	case onnx.AttrInt:
		a.Int = t.int64(4, 0)
	case onnx.AttrString:
		a.String = []byte(t.text(5))
	case onnx.AttrTensor:
		x := r.tensor(t.table(6))
		a.Tensor = &x
	case onnx.AttrGraph:
		g := r.graph(t.table(7), a.Name, depth+1)
		a.Graph = &g
	case onnx.AttrFloats:
		at, n := t.vector(8, 4)
		if r.b.spend(4 * n) {
			for i := range n {
				a.Floats = append(a.Floats, math.Float32frombits(uint32(r.b.u32(at+4*i))))
			}
		}
	case onnx.AttrInts:
		a.Ints = r.longs(t, 9)
	case onnx.AttrStrings:
		for _, s := range t.texts(10) {
			a.Strings = append(a.Strings, []byte(s))
		}
	default:
		r.b.fail("unsupported type %d of attribute %.64q", int32(a.Type), a.Name)
	}
	return a
}

// Open checks a model that was read and reports its first problem.
func Open(data []byte) (*onnx.Model, error) {
	m, err := Parse(data)
	if err != nil {
		return nil, err
	}
	for _, p := range m.Check(onnx.CheckOptions{Domains: []string{"com.microsoft"}}) {
		if !p.Warning {
			return nil, fmt.Errorf("%v", p)
		}
	}
	return m, nil
}
