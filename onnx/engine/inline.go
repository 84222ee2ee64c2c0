package engine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"mm-abi.org/mm/onnx"
)

// inliner replaces calls of a model's functions by the nodes of the functions.
type inliner struct {
	functions map[[3]string]*onnx.Function
	opset     int64
	limit     int // on nodes and calls
	count     int
	calls     int
}

// frame is one call: the names of the function's values and its attributes. The
// zero frame is the model itself.
type frame struct {
	prefix string
	names  map[string]string
	attrs  map[string]onnx.Attribute
}

// name returns the name in the model of a value of a function.
func (f *frame) name(v string) string {
	if to, ok := f.names[v]; ok {
		return to
	}
	if v == "" {
		return v
	}
	return f.prefix + v
}

// inlined returns the graph of a checked model without calls of its functions.
// The number of nodes is limited.
func inlined(m *onnx.Model, limit int) (*onnx.Graph, error) {
	g := m.Graph
	if len(m.Functions) == 0 {
		return &g, nil
	}
	in := &inliner{functions: make(map[[3]string]*onnx.Function), opset: opsetOf(m), limit: limit}
	for i := range m.Functions {
		f := &m.Functions[i]
		in.functions[key(f.Domain, f.Name, f.Overload)] = f
	}
	return in.graph(&g, &frame{})
}

func key(domain, name, overload string) [3]string {
	if domain == "ai.onnx" {
		domain = ""
	}
	return [3]string{domain, name, overload}
}

func (in *inliner) graph(g *onnx.Graph, f *frame) (*onnx.Graph, error) {
	out := *g
	var err error
	if out.Nodes, err = in.nodes(g.Nodes, f); err != nil || f.prefix == "" {
		return &out, err
	}
	out.Inputs, out.Outputs, out.Initializers = slices.Clone(g.Inputs), slices.Clone(g.Outputs), slices.Clone(g.Initializers)
	for i := range out.Inputs {
		out.Inputs[i].Name = f.name(out.Inputs[i].Name)
	}
	for i := range out.Outputs {
		out.Outputs[i].Name = f.name(out.Outputs[i].Name)
	}
	for i := range out.Initializers {
		out.Initializers[i].Name = f.name(out.Initializers[i].Name)
	}
	return &out, nil
}

func (in *inliner) nodes(list []onnx.Node, f *frame) (out []onnx.Node, err error) {
	for i := range list {
		if in.count++; in.count > in.limit {
			return nil, fmt.Errorf("more than %d nodes", in.limit)
		}
		n := list[i]
		n.Inputs, n.Outputs = slices.Clone(n.Inputs), slices.Clone(n.Outputs)
		for _, names := range [][]string{n.Inputs, n.Outputs} {
			for k, name := range names {
				names[k] = f.name(name)
			}
		}
		if n.Attributes, err = in.attributes(n.Attributes, f); err != nil {
			return nil, err
		}
		callee := in.functions[key(n.Domain, n.Op, n.Overload)]
		if callee == nil {
			out = append(out, n)
			continue
		}
		body, err := in.call(callee, &n)
		if err != nil {
			return nil, fmt.Errorf("function %s: %w", callee.Name, err)
		}
		out = append(out, body...)
	}
	return out, nil
}

// call returns the nodes of a function for one call.
func (in *inliner) call(f *onnx.Function, n *onnx.Node) ([]onnx.Node, error) {
	for _, o := range f.Opsets {
		if (o.Domain == "" || o.Domain == "ai.onnx") && o.Version != in.opset {
			return nil, fmt.Errorf("opset %d of a function in a model of opset %d is not supported", o.Version, in.opset)
		}
	}
	if len(n.Inputs) > len(f.Inputs) || len(n.Outputs) > len(f.Outputs) {
		return nil, errors.New("more inputs or outputs than the function has")
	}
	in.calls++
	to := &frame{prefix: "call " + strconv.Itoa(in.calls) + "/", names: make(map[string]string), attrs: make(map[string]onnx.Attribute)}
	for i, name := range f.Inputs {
		to.names[name] = ""
		if i < len(n.Inputs) {
			to.names[name] = n.Inputs[i]
		}
	}
	for i, name := range f.Outputs {
		if i < len(n.Outputs) && n.Outputs[i] != "" {
			to.names[name] = n.Outputs[i]
		}
	}
	for _, a := range slices.Concat(f.Defaults, n.Attributes) {
		to.attrs[a.Name] = a
	}
	return in.nodes(f.Nodes, to)
}

// attributes replaces references to the attributes of a call, and inlines calls
// in graphs.
func (in *inliner) attributes(list []onnx.Attribute, f *frame) (out []onnx.Attribute, err error) {
	for _, a := range list {
		if a.Ref != "" {
			value, ok := f.attrs[a.Ref]
			if !ok {
				continue // omitted
			}
			value.Name = a.Name
			a = value
		} else if a.Graph != nil {
			if a.Graph, err = in.graph(a.Graph, f); err != nil {
				return nil, err
			}
		}
		out = append(out, a)
	}
	return out, nil
}
