package onnx

import "slices"

// StripOptions say what Strip leaves. The zero value takes all it can.
type StripOptions struct {
	Metadata bool // keep metadata: some programs read parameters there
	Docs     bool // keep texts for people
}

// Strip gives a copy of the model without what no run needs: nodes and
// constants that no result depends on, opsets and functions that nothing uses,
// descriptions of intermediate results, training graphs, and texts. The model
// shares its weights.
func (m *Model) Strip(opt StripOptions) *Model {
	out := *m.Share()
	out.Training = nil
	out.Functions = slices.Clone(m.Functions)
	if !opt.Metadata {
		out.Metadata = nil
	}
	if !opt.Docs {
		out.Doc = ""
	}
	out.Graph = stripped(&m.Graph, opt)
	for i := range out.Functions {
		f := &out.Functions[i]
		f.Nodes = slices.Clone(f.Nodes)
		for j := range f.Nodes {
			f.Nodes[j] = strippedNode(f.Nodes[j], opt)
		}
		if !opt.Docs {
			f.Doc = ""
		}
	}
	out.sweep()
	return &out
}

// stripped is a graph without what its results do not need. Inputs stay: they
// are how the graph is called, but for those that a dropped constant provided.
func stripped(g *Graph, opt StripOptions) Graph {
	var results []string
	for _, v := range g.Outputs {
		results = append(results, v.Name)
	}
	need, keep := g.reach(results, nil)
	out := Graph{Name: g.Name, Outputs: slices.Clone(g.Outputs)}
	for i := range g.Nodes {
		if keep[i] {
			out.Nodes = append(out.Nodes, strippedNode(g.Nodes[i], opt))
		}
	}
	gone := make(map[string]bool)
	for _, t := range g.Initializers {
		gone[t.Name] = !need[t.Name]
	}
	out.Inputs = keepIf(g.Inputs, func(v Value) bool { return !gone[v.Name] })
	out.Initializers = keepIf(g.Initializers, func(t Tensor) bool { return need[t.Name] })
	out.Sparse = keepIf(g.Sparse, func(s SparseTensor) bool { return need[s.Values.Name] })
	if opt.Docs {
		out.Doc = g.Doc
		return out
	}
	for i := range out.Inputs {
		out.Inputs[i].Doc = ""
	}
	for i := range out.Outputs {
		out.Outputs[i].Doc = ""
	}
	for i := range out.Initializers {
		out.Initializers[i].Doc = ""
	}
	return out
}

// strippedNode is a node with the graphs within it stripped.
func strippedNode(n Node, opt StripOptions) Node {
	if !opt.Docs {
		n.Doc = ""
	}
	n.Attributes = slices.Clone(n.Attributes)
	for i := range n.Attributes {
		a := &n.Attributes[i]
		if !opt.Docs {
			a.Doc = ""
		}
		if a.Graph != nil {
			g := stripped(a.Graph, opt)
			a.Graph = &g
		}
		a.Graphs = slices.Clone(a.Graphs)
		for j := range a.Graphs {
			a.Graphs[j] = stripped(&a.Graphs[j], opt)
		}
	}
	return n
}

// sweep drops functions that no node calls, and opsets of domains that no node
// is of. ai.onnx stays: a model without it is refused.
func (m *Model) sweep() {
	for {
		called := make(map[[3]string]bool)
		m.EachNode(func(n *Node) { called[[3]string{canonical(n.Domain), n.Op, n.Overload}] = true })
		before := len(m.Functions)
		m.Functions = keepIf(m.Functions, func(f Function) bool { return called[[3]string{canonical(f.Domain), f.Name, f.Overload}] })
		if len(m.Functions) == before {
			break
		}
	}
	used := map[string]bool{"": true}
	m.EachNode(func(n *Node) { used[canonical(n.Domain)] = true })
	m.Opsets = keepIf(m.Opsets, func(o Opset) bool { return used[canonical(o.Domain)] })
}
