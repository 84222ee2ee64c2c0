// EPContext is ONNX Runtime's operator for a compiled part, with a QNN context
// binary in the node or in a file next to the model. [ReadEPContext] finds the
// nodes. [Node.Compare] compares a node with its context: ONNX Runtime maps
// inputs and outputs by position and computes wrong results if names are
// swapped.

package htp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/onnx"
)

// EPContextOp and Domain name the operator of a compiled part.
const (
	EPContextOp = "EPContext"
	Domain      = "com.microsoft"
)

// EPContext describes an ONNX model with compiled parts.
type EPContext struct {
	Nodes []Node
	// Left counts the operators that were not compiled, sorted by name.
	Left []Count
	// Inputs and Outputs are the model's.
	Inputs, Outputs []onnx.Value
}

// Count is an operator and how often it occurs.
type Count struct {
	Name  string
	Count int
}

// Node is a compiled part.
type Node struct {
	Name    string
	Graph   string // partition_name: the graph in the context
	Source  string // producer of the context
	SDK     string // ep_sdk_version
	Main    bool   // the context is named here; other nodes share it
	Embed   bool   // the context is in the model
	File    string // path of the context relative to the model, if not embedded
	Bytes   []byte // the embedded context; it aliases the model
	MaxSize int64  // of the spill-fill buffer
	Inputs  []Port
	Outputs []Port
}

// Port is an input or an output of a node, with its type if the model has one.
type Port struct {
	Name string
	Type onnx.Type
}

// QNN reports whether a node is for QNN, by ONNX Runtime's rule.
func (n Node) QNN() bool {
	s := strings.ToLower(n.Source)
	return s == "qnn" || s == "qnnexecutionprovider"
}

// ReadEPContext finds the compiled parts of a model. If there are none, the
// error is [htp.ErrOther].
func ReadEPContext(m *onnx.Model) (*EPContext, error) {
	types := map[string]onnx.Type{}
	for _, list := range [][]onnx.Value{m.Graph.Values, m.Graph.Inputs, m.Graph.Outputs} {
		for _, v := range list {
			types[v.Name] = v.Type
		}
	}
	out := &EPContext{Inputs: m.Inputs(), Outputs: m.Graph.Outputs}
	left := map[string]int{}
	for _, n := range m.Graph.Nodes {
		if n.Op != EPContextOp || n.Domain != Domain {
			left[n.Op]++
			continue
		}
		node, err := nodeOf(n, types)
		if err != nil {
			return nil, fmt.Errorf("epcontext: node %q: %w", n.Name, err)
		}
		out.Nodes = append(out.Nodes, node)
	}
	if len(out.Nodes) == 0 {
		return nil, fmt.Errorf("epcontext: %w: no node %s", ErrOther, EPContextOp)
	}
	for name, n := range left {
		out.Left = append(out.Left, Count{name, n})
	}
	slices.SortFunc(out.Left, func(a, b Count) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// nodeOf parses a node's attributes.
func nodeOf(n onnx.Node, types map[string]onnx.Type) (Node, error) {
	out := Node{Name: n.Name}
	attributes := map[string]onnx.Attribute{}
	for _, a := range n.Attributes {
		if _, twice := attributes[a.Name]; twice {
			return out, fmt.Errorf("duplicate attribute %q", a.Name)
		}
		attributes[a.Name] = a
	}
	var errs []error
	number := func(name string, absent int64) int64 {
		a, ok := attributes[name]
		if !ok {
			return absent
		}
		if a.Type != onnx.AttrInt {
			errs = append(errs, fmt.Errorf("attribute %q is not a number", name))
		}
		return a.Int
	}
	text := func(name string) string {
		a, ok := attributes[name]
		if ok && a.Type != onnx.AttrString {
			errs = append(errs, fmt.Errorf("attribute %q is not a string", name))
		}
		if len(a.String) > 1<<16 {
			errs = append(errs, fmt.Errorf("attribute %q too long: %d bytes", name, len(a.String)))
			return ""
		}
		return strings.ToValidUTF8(string(a.String), "\uFFFD")
	}
	out.Main, out.MaxSize = number("main_context", 1) == 1, number("max_size", 0)
	out.Graph, out.Source, out.SDK = text("partition_name"), text("source"), text("ep_sdk_version")
	switch mode := number("embed_mode", 1); {
	case mode == 1:
		out.Embed, out.Bytes = true, attributes["ep_cache_context"].String
		if a, ok := attributes["ep_cache_context"]; ok && a.Type != onnx.AttrString {
			errs = append(errs, errors.New("attribute \"ep_cache_context\" is empty"))
		}
	case mode == 0:
		out.File = text("ep_cache_context")
		if out.Main {
			errs = append(errs, onnx.CheckLocation(out.File))
		}
	default:
		errs = append(errs, fmt.Errorf("bad embed_mode: got %d, want 0 or 1", mode))
	}
	for _, name := range n.Inputs {
		out.Inputs = append(out.Inputs, Port{name, types[name]})
	}
	for _, name := range n.Outputs {
		out.Outputs = append(out.Outputs, Port{name, types[name]})
	}
	return out, errors.Join(errs...)
}

// Difference is a value on which a node and its context disagree.
type Difference struct{ What, Node, Context string }

// Compare lists the differences between a node and its context: the graph's
// name, the names and order of inputs and outputs, element types and
// dimensions. A value that the model leaves open does not count.
func (n Node) Compare(c *Context) []Difference {
	if c.Unread != "" {
		return nil
	}
	i := slices.IndexFunc(c.Graphs, func(g Graph) bool { return g.Name == n.Graph })
	if i < 0 {
		var names []string
		for _, g := range c.Graphs {
			names = append(names, g.Name)
		}
		return []Difference{{"graph", n.Graph, strings.Join(names, ", ")}}
	}
	return append(compare("input", n.Inputs, c.Graphs[i].Inputs), compare("output", n.Outputs, c.Graphs[i].Outputs)...)
}

func compare(what string, ports []Port, tensors []Tensor) []Difference {
	if len(ports) != len(tensors) {
		return []Difference{{what + "s", fmt.Sprint(len(ports)), fmt.Sprint(len(tensors))}}
	}
	var out []Difference
	for i, p := range ports {
		t := tensors[i]
		if p.Name != t.Name {
			out = append(out, Difference{fmt.Sprintf("%s %d", what, i), p.Name, t.Name})
			continue
		}
		if p.Type.Kind != onnx.TensorKind {
			continue
		}
		if d := p.Type.DType.String(); d != t.DType.ONNX() {
			out = append(out, Difference{fmt.Sprintf("%s %q, element type", what, p.Name), d, t.DType.String()})
		}
		if p.Type.Ranked && !sameDims(p.Type.Dims, t.Dims) {
			out = append(out, Difference{fmt.Sprintf("%s %q, dimensions", what, p.Name), fmt.Sprint(p.Type.Dims), fmt.Sprint(t.Dims)})
		}
	}
	return out
}

// sameDims compares dimensions; a named dimension never matches a compiled
// graph.
func sameDims(a []onnx.Dim, b []uint32) bool {
	return slices.EqualFunc(a, b, func(x onnx.Dim, y uint32) bool { return x.Param == "" && x.Value == int64(y) })
}

// WrapOptions configures [Wrap]: set either File or Bytes.
type WrapOptions struct {
	Graph string // of the context; "" if it has only one
	File  string // path of the context relative to the model
	Bytes []byte // the context itself, embedded without a copy
}

// Wrap builds a model of one graph of a context: its inputs, one node, its
// outputs.
func Wrap(c *Context, opt WrapOptions) (*onnx.Model, error) {
	m, err := wrap(c, opt)
	if err != nil {
		return nil, fmt.Errorf("epcontext: %w", err)
	}
	return m, nil
}

func wrap(c *Context, opt WrapOptions) (*onnx.Model, error) {
	if c.Unread != "" {
		return nil, errors.New(c.Unread)
	}
	if c.Backend != HTP {
		return nil, fmt.Errorf("context is for backend %s, want HTP: ONNX Runtime's provider runs no other", c.Backend)
	}
	g, err := chosen(c, opt.Graph)
	if err != nil {
		return nil, err
	}
	cache, embed := []byte(opt.File), int64(0)
	if opt.Bytes != nil {
		cache, embed = opt.Bytes, 1
	} else if err := onnx.CheckLocation(opt.File); err != nil {
		return nil, err
	}
	m := onnx.New("qnn", 17)
	m.Opsets = append(m.Opsets, onnx.Opset{Domain: Domain, Version: 1})
	if m.Graph.Inputs, err = values("input", g.Inputs); err != nil {
		return nil, err
	}
	if m.Graph.Outputs, err = values("output", g.Outputs); err != nil {
		return nil, err
	}
	spill := int64(0)
	if g.Memory != nil && g.Memory.SpillFill < 1<<62 {
		spill = int64(g.Memory.SpillFill)
	}
	m.Graph.Nodes = []onnx.Node{{Name: g.Name, Op: EPContextOp, Domain: Domain, Inputs: names(g.Inputs), Outputs: names(g.Outputs), Attributes: []onnx.Attribute{
		onnx.Int("main_context", 1), onnx.Int("embed_mode", embed), {Name: "ep_cache_context", Type: onnx.AttrString, String: cache}, onnx.String("ep_sdk_version", c.Build),
		onnx.String("partition_name", g.Name), onnx.String("source", "QNN"), onnx.Int("max_size", spill),
	}}}
	return m, nil
}

// chosen returns the selected graph.
func chosen(c *Context, name string) (Graph, error) {
	var all []string
	for _, g := range c.Graphs {
		if g.Name == name || name == "" && len(c.Graphs) == 1 {
			return g, nil
		}
		all = append(all, g.Name)
	}
	if name == "" {
		return Graph{}, fmt.Errorf("ambiguous graph: the context has %d, choose one of %s", len(c.Graphs), strings.Join(all, ", "))
	}
	return Graph{}, fmt.Errorf("unknown graph %q, the context has %s", name, strings.Join(all, ", "))
}

func names(tensors []Tensor) []string {
	out := []string{}
	for _, t := range tensors {
		out = append(out, t.Name)
	}
	return out
}

func values(what string, tensors []Tensor) ([]onnx.Value, error) {
	var out []onnx.Value
	for _, t := range tensors {
		d, ok := onnx.DTypeOf(t.DType.ONNX())
		if !ok {
			return nil, fmt.Errorf("%s %q: element type %s is not an ONNX type", what, t.Name, t.DType)
		}
		var dims []any
		for i, n := range t.Dims {
			if n == 0 || len(t.Dynamic) > i && t.Dynamic[i] {
				return nil, fmt.Errorf("%s %q: dynamic dimension in %v", what, t.Name, t.Dims)
			}
			dims = append(dims, int64(n))
		}
		out = append(out, onnx.TensorValue(t.Name, d, dims...))
	}
	return out, nil
}
