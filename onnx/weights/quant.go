// Package quant makes the weights of an ONNX model 8-bit integers with a scale
// for each output channel, symmetric about 0.
//
// [Int8] finds the weights of MatMul, Gemm and Conv, in initializers or
// Constant nodes, in the graph and in graphs within it, and puts in their place
// integers and a node that makes them floats again under the same name: every
// use, in branches and loops too, is as it was. From opset 13 on that node is
// DequantizeLinear; below, a Cast and a product, which every opset has. Raising
// the opset instead would change what other operators mean.
//
// Engines make the weights floats as they load them: the file gets smaller, and
// neither speed nor memory changes.
package weights

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
)

// Options say which weights are made integers. The zero value takes those of
// 1,024 elements and more.
type Options struct {
	MinElements int64    // 0: 1,024
	Keep        []string // names of weights that stay
}

// Weight is a tensor that was made integers.
type Weight struct {
	Name   string
	Op     string // of the node that reads it
	Dims   []int64
	Axis   int   // of the channels
	Before int64 // bytes
	After  int64 // bytes, scales included
}

// minOpset is the first opset whose Mul stretches its inputs to each other.
const minOpset = 7

// Int8 gives a copy of the model with 8-bit weights, and what was changed. The
// model shares what stays. No weight that is large enough is an error, and so
// is a name of Keep that no weight has.
func Int8(m *onnx.Model, opt Options) (*onnx.Model, []Weight, error) {
	if opt.MinElements <= 0 {
		opt.MinElements = 1024
	}
	q := &quantizer{opt: opt, taken: make(map[string]bool), kept: make(map[string]bool)}
	for _, o := range m.Opsets {
		if o.Domain == "" || o.Domain == "ai.onnx" {
			q.opset = o.Version
		}
	}
	if q.opset < minOpset {
		return nil, nil, fmt.Errorf("quantising: opset %d, weights can be made integers from %d on", q.opset, minOpset)
	}
	names(&m.Graph, q.taken)
	out := *m.Share()
	graph, err := q.graph(&m.Graph)
	if err != nil {
		return nil, nil, fmt.Errorf("quantising: %w", err)
	}
	out.Graph = graph
	for _, name := range opt.Keep {
		if !q.kept[name] {
			return nil, nil, fmt.Errorf("quantising: there is no weight %q to keep", name)
		}
	}
	if len(q.done) == 0 {
		return nil, nil, errors.New("quantising: no MatMul, Gemm or Conv has float32 weights that are large enough")
	}
	return &out, q.done, nil
}

// quantizer goes through a model.
type quantizer struct {
	opt   Options
	opset int64
	taken map[string]bool // names of the model
	kept  map[string]bool
	done  []Weight
}

// names collects every name of a graph and those within it.
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

// fresh is a name that the model does not have yet.
func (q *quantizer) fresh(name string) string {
	for q.taken[name] {
		name += "_"
	}
	q.taken[name] = true
	return name
}

// channel is the axis of a weight's output channels where a node reads it;
// false for what is no weight of it.
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

// use is how a weight is read first.
type use struct {
	op   string
	axis int
}

// uses finds the weights that the nodes of a graph, and of those within it that
// look out of theirs, read.
func (q *quantizer) uses(g *onnx.Graph, weights map[string]*onnx.Tensor, into map[string]use) {
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

// graph makes the weights of one graph integers, and those of graphs within it.
func (q *quantizer) graph(g *onnx.Graph) (onnx.Graph, error) {
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
	var made []onnx.Tensor
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
		made = append(made, ints, scales)
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
	out.Initializers = append(out.Initializers, made...)
	out.Nodes = append(nodes, rest...)
	out.Inputs = slices.DeleteFunc(slices.Clone(g.Inputs), func(v onnx.Value) bool { return done[v.Name] }) // IR version 3 lists them
	return out, nil
}

// node goes into the graphs of a node's attributes.
func (q *quantizer) node(n onnx.Node) (onnx.Node, error) {
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

// constant is the tensor of a Constant node; nil for any other.
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

// channels makes the integers and scales of a weight.
func (q *quantizer) channels(name string, t *onnx.Tensor, u use) (ints, scales onnx.Tensor, err error) {
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
	if q.opset < perAxis { // stretched to the weight by the product
		dims = make([]int64, len(t.Dims))
		for i := range dims {
			dims[i] = 1
		}
		dims[u.axis] = count
	}
	q.done = append(q.done, Weight{Name: name, Op: u.op, Dims: slices.Clone(t.Dims), Axis: u.axis, Before: int64(len(raw)), After: int64(len(values)) + 4*count})
	return onnx.Int8s(q.fresh(name+"_int8"), slices.Clone(t.Dims), values), onnx.Floats(q.fresh(name+"_scale"), dims, scale), nil
}

// scalesOf gives each channel the scale by which its largest weight is 127.
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
		if scale[c] /= 127; scale[c] < math.SmallestNonzeroFloat32*(1<<23) { // a channel of nothing but zeros, nearly
			scale[c] = 1
		}
	}
	return scale, nil
}

// perAxis is the first opset whose DequantizeLinear has scales for each
// channel.
const perAxis = 13

// floats are the nodes that make the integers floats, under the weight's name.
func (q *quantizer) floats(name, ints, scales string, axis int) []onnx.Node {
	var g onnx.Graph
	if q.opset >= perAxis {
		g.Add("DequantizeLinear", []string{ints, scales}, name, onnx.Int("axis", int64(axis)))
	} else {
		g.Add("Mul", []string{g.Add("Cast", []string{ints}, q.fresh(name+"_cast"), onnx.Int("to", int64(onnx.FLOAT))), scales}, name)
	}
	return g.Nodes
}
