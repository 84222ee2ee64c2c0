package lower

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// sized returns a graph that multiplies n rows of 4 and joins them with w more.
func sized(n, w int) *Graph {
	weights := &Value{Name: "w", Shape: []int{4, 4}, Const: &Const{Floats: make([]float32, 16)}}
	x, past := &Value{Name: "x", Shape: []int{n, 4}}, &Value{Name: "past", Shape: []int{w, 4}}
	y, z := &Value{Name: "y", Shape: []int{n, 4}}, &Value{Name: "z", Shape: []int{w + n, 4}}
	return &Graph{Inputs: []*Value{x, past}, Outputs: []*Value{z}, Nodes: []*Node{
		{Op: MatMul, Name: "product", In: []*Value{x, weights}, Out: y}, {Op: Concat, Name: "join", In: []*Value{past, y}, Out: z},
	}}
}

// The dimensions that differ are open, and equal numbers are equal sizes.
func TestOpen(t *testing.T) {
	g, smaller := sized(2, 5), sized(3, 7)
	if err := errors.Join(Open(g, sized(3, 7)), Open(smaller, sized(2, 5))); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(smaller.Outputs[0].Shape, g.Outputs[0].Shape) {
		t.Errorf("got %v of the larger first, want %v", smaller.Outputs[0].Shape, g.Outputs[0].Shape)
	}
	for name, c := range map[string][2][]int{
		"x": {g.Inputs[0].Shape, {-1, 4}}, "past": {g.Inputs[1].Shape, {-2, 4}}, "y": {g.Nodes[0].Out.Shape, {-1, 4}}, "z": {g.Outputs[0].Shape, {-3, 4}},
		"w": {g.Nodes[0].In[1].Shape, {4, 4}},
	} {
		if !slices.Equal(c[0], c[1]) {
			t.Errorf("%s: got %v, want %v", name, c[0], c[1])
		}
	}
}

// Graphs that differ in more than sizes are refused.
func TestOpenRefused(t *testing.T) {
	for want, change := range map[string]func(g *Graph){
		"got 2 and 1 nodes":         func(g *Graph) { g.Nodes = g.Nodes[:1] },
		"other attributes":          func(g *Graph) { g.Nodes[1].Axis = 1 },
		"constants that differ":     func(g *Graph) { g.Nodes[0].In[1].Const.Floats[3] = 1 },
		"got [2 4] of float32":      func(g *Graph) { g.Inputs[0].Type = Int64 },
		`got "x" and "past"`:        func(g *Graph) { g.Nodes[0].In[0] = g.Inputs[1] },
		"[4 4] of float32 and [16]": func(g *Graph) { g.Nodes[0].In[1].Shape = []int{16} },
	} {
		other := sized(3, 7)
		change(other)
		if err := Open(sized(2, 5), other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
