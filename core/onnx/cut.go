package onnx

import (
	"fmt"
	"maps"
	"slices"
)

// Cut gives the part of the model that computes the named results, as a model
// of its own whose outputs they are: a classifier cut before its head is an
// encoder. What the part does not need is left out. A result that the model
// does not describe (value_info) becomes an output without a type, which
// runtimes infer.
func (m *Model) Cut(results ...string) (*Model, error) {
	g := &m.Graph
	producer := make(map[string]int)
	for i, n := range g.Nodes {
		for _, name := range n.Outputs {
			producer[name] = i
		}
	}
	need, keep := make(map[string]bool), make(map[int]bool)
	queue := slices.Clone(results)
	for len(queue) > 0 {
		name := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if name == "" || need[name] {
			continue
		}
		need[name] = true
		if i, ok := producer[name]; ok && !keep[i] {
			keep[i] = true
			queue = append(queue, uses(&g.Nodes[i])...)
		}
	}
	out := *m
	out.m = nil
	out.Training = nil
	out.Graph = Graph{Name: g.Name, Doc: g.Doc}
	for _, i := range slices.Sorted(maps.Keys(keep)) {
		out.Graph.Nodes = append(out.Graph.Nodes, g.Nodes[i])
	}
	out.Graph.Inputs = keepIf(g.Inputs, func(v Value) bool { return need[v.Name] })
	out.Graph.Initializers = keepIf(g.Initializers, func(t Tensor) bool { return need[t.Name] })
	out.Graph.Sparse = keepIf(g.Sparse, func(s SparseTensor) bool { return need[s.Values.Name] })
	out.Graph.Values = keepIf(g.Values, func(v Value) bool { return need[v.Name] && !slices.Contains(results, v.Name) })
	for _, name := range results {
		if _, made := producer[name]; !made {
			return nil, fmt.Errorf("onnx: no node of the graph produces %q", name)
		}
		out.Graph.Outputs = append(out.Graph.Outputs, g.describe(name))
	}
	return &out, nil
}

// uses lists every name that a node may take from its graph, those that
// graphs within it take included.
func uses(n *Node) []string {
	names := slices.Clone(n.Inputs)
	visitor{node: func(_ *place, inner *Node) { names = append(names, inner.Inputs...) }}.nodes(nil, []Node{*n})
	for _, a := range n.Attributes {
		for _, g := range append(slices.Clone(a.Graphs), deref(a.Graph)...) {
			for _, v := range g.Outputs {
				names = append(names, v.Name)
			}
		}
	}
	return names
}

func deref(g *Graph) []Graph {
	if g == nil {
		return nil
	}
	return []Graph{*g}
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

// describe finds what is known of a result.
func (g *Graph) describe(name string) Value {
	for _, list := range [][]Value{g.Outputs, g.Values} {
		for _, v := range list {
			if v.Name == name {
				return v
			}
		}
	}
	return Value{Name: name}
}
