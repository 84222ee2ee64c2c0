package onnx

import (
	"fmt"
	"strings"
)

// place is a position in a model; it is formatted only for a problem.
type place struct {
	up    *place
	what  string
	index int // -1 if there is only one
	name  string
}

func (p *place) in(what string, index int, name string) *place {
	return &place{p, what, index, name}
}

// String formats a place as graph/node[3] "Conv"/attribute "then_branch".
func (p *place) String() string {
	var parts []string
	for ; p != nil; p = p.up {
		part := p.what
		if p.index >= 0 {
			part += fmt.Sprintf("[%d]", p.index)
		}
		if p.name != "" {
			part += fmt.Sprintf(" %q", p.name)
		}
		parts = append([]string{part}, parts...)
	}
	return strings.Join(parts, "/")
}

// visitor is called for every node and every tensor of a model: in the graph,
// in graphs within attributes, in functions and in training graphs.
type visitor struct {
	node   func(at *place, n *Node)
	tensor func(at *place, t *Tensor)
}

func (m *Model) walk(v visitor) {
	v.graph(&place{what: "graph", index: -1, name: m.Graph.Name}, &m.Graph)
	for i := range m.Functions {
		f := &m.Functions[i]
		at := &place{what: "function", index: i, name: f.Name}
		v.nodes(at, f.Nodes)
		for j := range f.Defaults {
			v.attribute(at.in("default", j, f.Defaults[j].Name), &f.Defaults[j])
		}
	}
	for i := range m.Training {
		v.graph(&place{what: "training graph", index: i}, &m.Training[i])
	}
}

func (v visitor) graph(at *place, g *Graph) {
	v.tensors(at, "initializer", g.Initializers)
	for i := range g.Sparse {
		v.sparse(at.in("sparse_initializer", i, g.Sparse[i].Values.Name), &g.Sparse[i])
	}
	v.nodes(at, g.Nodes)
}

func (v visitor) nodes(at *place, nodes []Node) {
	for i := range nodes {
		n := &nodes[i]
		here := at.in("node", i, n.Name)
		if v.node != nil {
			v.node(here, n)
		}
		for j := range n.Attributes {
			v.attribute(here.in("attribute", -1, n.Attributes[j].Name), &n.Attributes[j])
		}
	}
}

// attribute visits every field that can hold a tensor, regardless of the
// declared type.
func (v visitor) attribute(at *place, a *Attribute) {
	if a.Tensor != nil {
		v.one(at, a.Tensor)
	}
	v.tensors(at, "tensor", a.Tensors)
	if a.Sparse != nil {
		v.sparse(at, a.Sparse)
	}
	for i := range a.Sparses {
		v.sparse(at.in("sparse", i, ""), &a.Sparses[i])
	}
	if a.Graph != nil {
		v.graph(at, a.Graph)
	}
	for i := range a.Graphs {
		v.graph(at.in("graph", i, ""), &a.Graphs[i])
	}
}

func (v visitor) tensors(at *place, what string, ts []Tensor) {
	for i := range ts {
		v.one(at.in(what, i, ts[i].Name), &ts[i])
	}
}

func (v visitor) sparse(at *place, s *SparseTensor) {
	v.one(at.in("values", -1, ""), &s.Values)
	v.one(at.in("indices", -1, ""), &s.Indices)
}

func (v visitor) one(at *place, t *Tensor) {
	if v.tensor != nil {
		v.tensor(at, t)
	}
}
