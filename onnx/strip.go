package onnx

import "slices"

// StripOptions selects what Strip keeps. The zero value keeps as little as
// possible.
type StripOptions struct {
	Metadata bool // keep metadata, from which some programs read parameters
	Docs     bool // keep documentation
}

// Strip returns a copy of the model without everything that no run needs: nodes
// and constants that no result depends on, unused opsets and functions,
// descriptions of intermediate results, training graphs, and texts. The copy
// shares the weights.
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

// stripped returns a graph without unneeded parts. Inputs are kept, because
// they are the interface of the graph, except those of dropped constants.
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
	dropped := make(map[string]bool)
	for _, t := range g.Initializers {
		dropped[t.Name] = !need[t.Name]
	}
	out.Inputs = keepIf(g.Inputs, func(v Value) bool { return !dropped[v.Name] })
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

// strippedNode returns a node with stripped subgraphs.
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

// sweep drops functions that no node calls, and opsets of domains without
// nodes. ai.onnx is kept: a model without it is refused.
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
