package qdq

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
)

// WeightOptions selects the weights to quantize. The zero value selects those of at
// least 1,024 elements.
type WeightOptions struct {
	MinElements int64    // 0: 1,024
	Keep        []string // names of weights to keep as floats
}

// Weight describes a quantized tensor.
type Weight struct {
	Name   string
	Op     string // operator of the node that reads it
	Dims   []int64
	Axis   int   // axis of the channels
	Before int64 // bytes
	After  int64 // bytes, including scales
}

// minWeightOpset is the first opset whose Mul broadcasts its inputs.
const minWeightOpset = 7

// QuantizeWeights returns a copy of the model with 8-bit weights, and the quantized
// weights. The copy shares unchanged parts. If no weight is large enough, or a
// name of Keep is unknown, QuantizeWeights returns an error.
//
// A node that converts the integers to floats has the name of the weight: all uses, also
// in branches and loops, are unchanged. Since opset 13 that node is DequantizeLinear;
// before, a Cast and a Mul, which every opset has. Raising the opset instead would change
// the meaning of other operators.
func QuantizeWeights(m *onnx.Model, opt WeightOptions) (*onnx.Model, []Weight, error) {
	if opt.MinElements <= 0 {
		opt.MinElements = 1024
	}
	q := &weightQuantizer{opt: opt, used: make(map[string]bool), kept: make(map[string]bool)}
	for _, o := range m.Opsets {
		if o.Domain == "" || o.Domain == "ai.onnx" {
			q.opset = o.Version
		}
	}
	if q.opset < minWeightOpset {
		return nil, nil, fmt.Errorf("quantizing: unsupported opset %d, want %d or later", q.opset, minWeightOpset)
	}
	names(&m.Graph, q.used)
	out := *m.Share()
	graph, err := q.graph(&m.Graph)
	if err != nil {
		return nil, nil, fmt.Errorf("quantizing: %w", err)
	}
	out.Graph = graph
	for _, name := range opt.Keep {
		if !q.kept[name] {
			return nil, nil, fmt.Errorf("quantizing: unknown weight %q to keep", name)
		}
	}
	if len(q.done) == 0 {
		return nil, nil, errors.New("quantizing: no MatMul, Gemm or Conv has float32 weights that are large enough")
	}
	return &out, q.done, nil
}

// weightQuantizer holds the state of quantizing one model.
type weightQuantizer struct {
	opt   WeightOptions
	opset int64
	used  map[string]bool // names in the model
	kept  map[string]bool
	done  []Weight
}

// names collects every name of a graph and its subgraphs.
func names(g *onnx.Graph, into map[string]bool) {
	for _, v := range g.Inputs {
		into[v.Name] = true
	}
	for i := range g.Initializers {
		into[g.Initializers[i].Name] = true
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		for _, name := range append(slices.Clone(n.Inputs), n.Outputs...) {
			into[name] = true
		}
		for j := range n.Attributes {
			for _, sub := range n.Attributes[j].Subgraphs() {
				names(sub, into)
			}
		}
	}
}

// fresh returns a name that is not used in the model.
func (q *weightQuantizer) fresh(name string) string {
	for q.used[name] {
		name += "_"
	}
	q.used[name] = true
	return name
}

// channel returns the axis of the output channels of a weight that a node
// reads; false if the input is not a weight.
func channel(n *onnx.Node, input, rank int) (int, bool) {
	if n.Domain != "" && n.Domain != "ai.onnx" || input != 1 {
		return 0, false
	}
	switch n.Op {
	case "MatMul":
		return rank - 1, rank >= 2
	case "Conv":
		return 0, rank >= 3
	case "Gemm":
		for _, a := range n.Attributes {
			if a.Name == "transB" && a.Int != 0 {
				return 0, rank == 2
			}
		}
		return 1, rank == 2
	}
	return 0, false
}

// use describes the first read of a weight.
type use struct {
	op   string
	axis int
}

// uses finds the weights that the nodes of a graph and of its subgraphs read.
func (q *weightQuantizer) uses(g *onnx.Graph, weights map[string]*onnx.Tensor, into map[string]use) {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		for j, name := range n.Inputs {
			t := weights[name]
			if t == nil {
				continue
			}
			if axis, ok := channel(n, j, len(t.Dims)); ok {
				if _, seen := into[name]; !seen {
					into[name] = use{n.Op, axis}
				}
			}
		}
		for j := range n.Attributes {
			for _, sub := range n.Attributes[j].Subgraphs() {
				q.uses(sub, weights, into)
			}
		}
	}
}

// graph quantizes the weights of one graph and its subgraphs.
func (q *weightQuantizer) graph(g *onnx.Graph) (onnx.Graph, error) {
	out := *g
	weights := make(map[string]*onnx.Tensor)
	for i := range g.Initializers {
		weights[g.Initializers[i].Name] = &g.Initializers[i]
	}
	for i := range g.Nodes {
		if t := constant(&g.Nodes[i]); t != nil {
			weights[g.Nodes[i].Outputs[0]] = t
		}
	}
	found := make(map[string]use)
	q.uses(g, weights, found)
	done := make(map[string]bool)
	var added []onnx.Tensor
	var nodes []onnx.Node
	add := func(name string, t *onnx.Tensor) error {
		u, ok := found[name]
		if !ok || done[name] || t.DType != onnx.FLOAT || t.Elements() < q.opt.MinElements {
			return nil
		}
		if slices.Contains(q.opt.Keep, name) {
			q.kept[name] = true
			return nil
		}
		ints, scales, err := q.channels(name, t, u)
		if err != nil {
			return err
		}
		done[name] = true
		added = append(added, ints, scales)
		nodes = append(nodes, q.floats(name, ints.Name, scales.Name, u.axis)...)
		return nil
	}
	out.Initializers, out.Nodes = nil, nil
	for i := range g.Initializers {
		t := &g.Initializers[i]
		if err := add(t.Name, t); err != nil {
			return out, err
		}
		if !done[t.Name] {
			out.Initializers = append(out.Initializers, *t)
		}
	}
	var rest []onnx.Node
	for i := range g.Nodes {
		n := g.Nodes[i]
		if t := constant(&n); t != nil {
			if err := add(n.Outputs[0], t); err != nil {
				return out, err
			}
			if done[n.Outputs[0]] {
				continue
			}
		}
		inner, err := q.node(n)
		if err != nil {
			return out, err
		}
		rest = append(rest, inner)
	}
	out.Initializers = append(out.Initializers, added...)
	out.Nodes = append(nodes, rest...)
	out.Inputs = slices.DeleteFunc(slices.Clone(g.Inputs), func(v onnx.Value) bool { return done[v.Name] }) // IR version 3 lists them
	return out, nil
}

// node quantizes the graphs of a node's attributes.
func (q *weightQuantizer) node(n onnx.Node) (onnx.Node, error) {
	n.Attributes = slices.Clone(n.Attributes)
	for i := range n.Attributes {
		a := &n.Attributes[i]
		if a.Graph != nil {
			g, err := q.graph(a.Graph)
			if err != nil {
				return n, err
			}
			a.Graph = &g
		}
		a.Graphs = slices.Clone(a.Graphs)
		for j := range a.Graphs {
			g, err := q.graph(&a.Graphs[j])
			if err != nil {
				return n, err
			}
			a.Graphs[j] = g
		}
	}
	return n, nil
}

// constant returns the tensor of a Constant node; nil for other nodes.
func constant(n *onnx.Node) *onnx.Tensor {
	if n.Op != "Constant" || len(n.Outputs) != 1 {
		return nil
	}
	for i := range n.Attributes {
		if a := &n.Attributes[i]; a.Name == "value" && a.Type == onnx.AttrTensor {
			return a.Tensor
		}
	}
	return nil
}

// channels returns the integers and scales of a weight.
func (q *weightQuantizer) channels(name string, t *onnx.Tensor, u use) (ints, scales onnx.Tensor, err error) {
	raw, err := t.Bytes()
	if err != nil {
		return ints, scales, err
	}
	inner := int64(1)
	for _, d := range t.Dims[u.axis+1:] {
		inner *= d
	}
	count := t.Dims[u.axis]
	scale, err := scalesOf(raw, inner, count)
	if err != nil {
		return ints, scales, fmt.Errorf("weight %q: %w", name, err)
	}
	values := make([]int8, t.Elements())
	for i := range values {
		v := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		values[i] = int8(max(-127, min(127, math.RoundToEven(float64(v)/float64(scale[int64(i)/inner%count])))))
	}
	dims := []int64{count}
	if q.opset < perAxis { // broadcast by the product
		dims = make([]int64, len(t.Dims))
		for i := range dims {
			dims[i] = 1
		}
		dims[u.axis] = count
	}
	q.done = append(q.done, Weight{Name: name, Op: u.op, Dims: slices.Clone(t.Dims), Axis: u.axis, Before: int64(len(raw)), After: int64(len(values)) + 4*count})
	return onnx.Int8s(q.fresh(name+"_int8"), slices.Clone(t.Dims), values), onnx.Floats(q.fresh(name+"_scale"), dims, scale), nil
}

// scalesOf returns the scale of each channel by which its largest weight is
// 127.
func scalesOf(raw []byte, inner, count int64) ([]float32, error) {
	scale := make([]float32, count)
	for i := range int64(len(raw) / 4) {
		v := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		if v != v || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("element %d is %v", i, v)
		}
		c := i / inner % count
		scale[c] = max(scale[c], float32(math.Abs(float64(v))))
	}
	for c := range scale {
		if scale[c] /= 127; scale[c] < math.SmallestNonzeroFloat32*(1<<23) { // a channel of nearly all zeros
			scale[c] = 1
		}
	}
	return scale, nil
}

// perAxis is the first opset whose DequantizeLinear has scales for each
// channel.
const perAxis = 13

// floats returns the nodes that convert the integers to floats, under the
// weight's name.
func (q *weightQuantizer) floats(name, ints, scales string, axis int) []onnx.Node {
	var g onnx.Graph
	if q.opset >= perAxis {
		g.Add("DequantizeLinear", []string{ints, scales}, name, onnx.Int("axis", int64(axis)))
	} else {
		g.Add("Mul", []string{g.Add("Cast", []string{ints}, q.fresh(name+"_cast"), onnx.Int("to", int64(onnx.FLOAT))), scales}, name)
	}
	return g.Nodes
}
