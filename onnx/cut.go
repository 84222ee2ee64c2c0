package onnx

import (
	"fmt"
	"maps"
	"slices"
)

// Cut returns the part of the model that computes the named results, as a model
// with these outputs: a classifier cut before its head is an encoder. Unneeded
// nodes are dropped.
func (m *Model) Cut(results ...string) (*Model, error) {
	var to []Value
	for _, name := range results {
		to = append(to, Value{Name: name})
	}
	return m.Between(nil, to)
}

// Between returns the part of the model between the values from, which become
// inputs in addition to the model's inputs that are still needed, and the
// values to, which become its results. A value without a type gets the one in
// the model or, if the model has none, the element type inferred from the node
// that produces it, without a shape. Between returns an error if a name is not
// in the top-level graph, no result needs a value of from, a type is unknown,
// or a result has a different element type than requested.
//
// Training graphs and unused functions and opsets are dropped.
func (m *Model) Between(from, to []Value) (*Model, error) {
	g := &m.Graph
	results := names(to)
	producer := g.producers()
	types := g.elementTypes()
	stop := make(map[string]bool)
	var inputs []Value
	for _, v := range from {
		if slices.ContainsFunc(g.Initializers, func(t Tensor) bool { return t.Name == v.Name }) {
			return nil, fmt.Errorf("onnx: %q is a constant of the model", v.Name)
		}
		if _, produced := producer[v.Name]; !produced && !slices.ContainsFunc(g.Inputs, func(in Value) bool { return in.Name == v.Name }) {
			return nil, m.unknown(v.Name)
		}
		if v.Type.Kind == NoKind {
			v = g.describe(v.Name, types)
		}
		if v.Type.Kind == NoKind {
			return nil, fmt.Errorf("onnx: unknown type of %q", v.Name)
		}
		stop[v.Name] = true
		inputs = append(inputs, v)
	}
	need, keep := g.reach(results, stop)
	for _, v := range inputs {
		if !need[v.Name] {
			return nil, fmt.Errorf("onnx: no result needs %q", v.Name)
		}
	}
	out := *m.Share()
	out.Training = nil
	out.Graph = Graph{Name: g.Name, Doc: g.Doc, Inputs: inputs}
	for _, i := range slices.Sorted(maps.Keys(keep)) {
		out.Graph.Nodes = append(out.Graph.Nodes, g.Nodes[i])
	}
	out.Graph.Inputs = append(out.Graph.Inputs, keepIf(g.Inputs, func(v Value) bool { return need[v.Name] && !stop[v.Name] })...)
	out.Graph.Initializers = keepIf(g.Initializers, func(t Tensor) bool { return need[t.Name] })
	out.Graph.Sparse = keepIf(g.Sparse, func(s SparseTensor) bool { return need[s.Values.Name] })
	out.Graph.Values = keepIf(g.Values, func(v Value) bool { return need[v.Name] && !stop[v.Name] && !slices.Contains(results, v.Name) })
	for i, name := range results {
		_, produced := producer[name]
		switch {
		case !produced:
			return nil, m.unknown(name)
		case stop[name]:
			return nil, fmt.Errorf("onnx: %q is both an input and a result of the part", name)
		case slices.Contains(results[:i], name):
			return nil, fmt.Errorf("onnx: duplicate result %q", name)
		}
		v := g.describe(name, types)
		if requested := to[i].Type; requested.Kind != NoKind {
			if v.Type.Kind != NoKind && v.Type.DType != requested.DType {
				return nil, fmt.Errorf("onnx: %q has type %s, not %s", name, v.Type.DType, requested.DType)
			}
			v.Type = requested
		}
		out.Graph.Outputs = append(out.Graph.Outputs, v)
	}
	out.sweep()
	return &out, nil
}

func names(values []Value) (out []string) {
	for _, v := range values {
		out = append(out, v.Name)
	}
	return out
}

// unknown returns the error for a name that cannot be cut at.
func (m *Model) unknown(name string) error {
	inner := false
	m.EachNode(func(n *Node) { inner = inner || slices.Contains(n.Outputs, name) })
	if inner {
		return fmt.Errorf("onnx: %q is computed within a branch, a loop or a function, which cannot be cut", name)
	}
	return fmt.Errorf("onnx: no node of the graph produces %q", name)
}

// producers returns the index of the node that produces each name.
func (g *Graph) producers() map[string]int {
	out := make(map[string]int)
	for i, n := range g.Nodes {
		for _, name := range n.Outputs {
			if name != "" {
				out[name] = i
			}
		}
	}
	return out
}

// reach walks back from the results, up to the names in stop, and returns the
// names and nodes that are needed.
func (g *Graph) reach(results []string, stop map[string]bool) (need map[string]bool, keep map[int]bool) {
	producer := g.producers()
	need, keep = make(map[string]bool), make(map[int]bool)
	queue := slices.Clone(results)
	for len(queue) > 0 {
		name := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if name == "" || need[name] {
			continue
		}
		need[name] = true
		if i, ok := producer[name]; ok && !keep[i] && !stop[name] {
			keep[i] = true
			queue = append(queue, uses(&g.Nodes[i])...)
		}
	}
	return need, keep
}

// uses returns every name that a node may read from its graph, including reads
// of its subgraphs.
func uses(n *Node) []string {
	names := slices.Clone(n.Inputs)
	for i := range n.Attributes {
		for _, g := range n.Attributes[i].Subgraphs() {
			for j := range g.Nodes {
				names = append(names, uses(&g.Nodes[j])...)
			}
			for _, v := range g.Outputs {
				names = append(names, v.Name)
			}
		}
	}
	return names
}

// Subgraphs returns the graphs of an attribute.
func (a *Attribute) Subgraphs() []*Graph {
	var out []*Graph
	if a.Graph != nil {
		out = append(out, a.Graph)
	}
	for i := range a.Graphs {
		out = append(out, &a.Graphs[i])
	}
	return out
}

func keepIf[T any](items []T, ok func(T) bool) []T {
	var out []T
	for _, item := range items {
		if ok(item) {
			out = append(out, item)
		}
	}
	return out
}

// describe returns the declared type of a value, or its inferred element type.
func (g *Graph) describe(name string, types map[string]DType) Value {
	for _, list := range [][]Value{g.Outputs, g.Values, g.Inputs} {
		for _, v := range list {
			if v.Name == name && v.Type.Kind != NoKind {
				return v
			}
		}
	}
	v := Value{Name: name}
	if d := types[name]; d.Known() {
		v.Type = Type{Kind: TensorKind, DType: d}
	}
	return v
}

// elementTypes infers the element types of tensors from the graph's inputs and
// constants through its nodes, as far as possible: except for the operators
// listed in fixed, the result has the type of the first input.
func (g *Graph) elementTypes() map[string]DType {
	types := make(map[string]DType)
	for _, list := range [][]Value{g.Inputs, g.Values, g.Outputs} {
		for _, v := range list {
			if v.Type.Kind == TensorKind {
				types[v.Name] = v.Type.DType
			}
		}
	}
	for i := range g.Initializers {
		types[g.Initializers[i].Name] = g.Initializers[i].DType
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		for j, name := range n.Outputs {
			if d := resultType(n, j, types); d.Known() && !types[name].Known() {
				types[name] = d
			}
		}
	}
	return types
}

// fixed lists operators of ai.onnx whose results have a fixed type.
var fixed = map[string]DType{
	"Shape": INT64, "Size": INT64, "NonZero": INT64, "ArgMax": INT64, "ArgMin": INT64,
	"Equal": BOOL, "Less": BOOL, "LessOrEqual": BOOL, "Greater": BOOL, "GreaterOrEqual": BOOL, "And": BOOL, "Or": BOOL, "Xor": BOOL, "Not": BOOL,
	"IsNaN": BOOL, "IsInf": BOOL, "MatMulInteger": INT32, "ConvInteger": INT32,
}

// resultType returns the element type of a node's output, 0 if unknown.
func resultType(n *Node, output int, types map[string]DType) DType {
	input := func(i int) DType {
		if i < len(n.Inputs) {
			return types[n.Inputs[i]]
		}
		return 0
	}
	if d, ok := fixed[n.Op]; ok {
		return d
	}
	switch n.Op {
	case "If", "Loop", "Scan", "QuantizeLinear", "DynamicQuantizeLinear", "SequenceAt", "EyeLike", "RandomNormal", "RandomUniform", "Multinomial", "Bernoulli":
		return 0
	case "Cast", "Constant", "ConstantOfShape":
		for i := range n.Attributes {
			switch a := &n.Attributes[i]; {
			case a.Name == "to":
				return DType(a.Int)
			case a.Name == "value" && a.Tensor != nil:
				return a.Tensor.DType
			case a.Name == "value_float" || a.Name == "value_floats":
				return FLOAT
			case a.Name == "value_int" || a.Name == "value_ints":
				return INT64
			}
		}
		if n.Op == "ConstantOfShape" {
			return FLOAT
		}
		return 0
	case "Where", "DequantizeLinear", "CastLike", "OneHot":
		return input(map[string]int{"Where": 1, "DequantizeLinear": 1, "CastLike": 1, "OneHot": 2}[n.Op])
	case "TopK":
		return []DType{input(0), INT64}[min(output, 1)]
	}
	if canonical(n.Domain) != "" || output > 0 && n.Op != "Split" && n.Op != "LSTM" && n.Op != "GRU" && n.Op != "RNN" {
		return 0
	}
	return input(0)
}
