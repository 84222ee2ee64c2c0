package qdq

import (
	"math"

	"mm-abi.org/mm/onnx"
)

// gelus writes each GELU that the model spells out in five nodes as one, which
// can have a pair around it: x·(1+erf(x/√2))/2, with the half in any of the
// three places where exporters put it. ai.onnx has the operator from opset 20
// on, before that it is ONNX Runtime's.
func (q *quantiser) gelus() {
	drop := make(map[int]bool)
	put := make(map[int]onnx.Node)
	for i := range q.g.Nodes {
		if q.g.Nodes[i].Op != "Erf" {
			continue
		}
		x, last, inner := q.gelu(i)
		if inner == nil {
			continue
		}
		for _, k := range inner {
			drop[k] = true
		}
		n := &q.g.Nodes[last]
		domain := microsoft
		if q.opset >= 20 {
			domain = ""
		}
		q.msGelu = q.msGelu || domain != ""
		put[last] = onnx.Node{Name: n.Name, Op: "Gelu", Domain: domain, Inputs: []string{x}, Outputs: n.Outputs}
	}
	q.replace(put, drop)
}

// gelu follows the nodes around an Erf: the value that goes in, the node that
// gives the result, and the others, which nothing else reads; nil where it is
// part of something else.
func (q *quantiser) gelu(erf int) (x string, last int, inner []int) {
	root, ok := q.producer[q.g.Nodes[erf].Inputs[0]]
	if !ok || !q.only(root) {
		return "", 0, nil
	}
	if x, ok = q.times(root, math.Sqrt(0.5)); !ok {
		return "", 0, nil
	}
	one, ok := q.next(erf)
	if !ok || q.g.Nodes[one].Op != "Add" || !q.beside(one, q.g.Nodes[erf].Outputs[0], 1) {
		return "", 0, nil
	}
	mul, ok := q.next(one)
	if !ok || q.g.Nodes[mul].Op != "Mul" {
		return "", 0, nil
	}
	other := q.other(mul, q.g.Nodes[one].Outputs[0])
	inner = []int{root, erf, one}
	if half, ok := q.producer[other]; ok && q.only(half) { // x/2 · (1+erf)
		if from, ok := q.times(half, 0.5); ok && from == x {
			return x, mul, append(inner, half)
		}
	}
	end, ok := q.next(mul)
	if !ok || q.g.Nodes[end].Op != "Mul" && q.g.Nodes[end].Op != "Div" {
		return "", 0, nil
	}
	inner = append(inner, mul)
	if from, ok := q.times(end, 0.5); other == x && ok && from == q.g.Nodes[mul].Outputs[0] {
		return x, end, inner
	}
	if _, ok := q.times(mul, 0.5); ok && q.g.Nodes[end].Op == "Mul" && q.other(end, q.g.Nodes[mul].Outputs[0]) == x {
		return x, end, inner
	}
	return "", 0, nil
}

// only reports whether one node reads what a node gives, and no result is it.
func (q *quantiser) only(i int) bool {
	out := q.g.Nodes[i].Outputs
	return len(out) == 1 && len(q.consumers[out[0]]) == 1 && !q.results[out[0]]
}

// next is the only reader of a node.
func (q *quantiser) next(i int) (int, bool) {
	if !q.only(i) {
		return 0, false
	}
	return q.consumers[q.g.Nodes[i].Outputs[0]][0], true
}

// other is the input of a node of two beside the one named.
func (q *quantiser) other(i int, name string) string {
	in := q.g.Nodes[i].Inputs
	if len(in) != 2 || in[0] == in[1] {
		return ""
	}
	if in[0] == name {
		return in[1]
	}
	return in[0]
}

// times reports that a node multiplies a value by a number, or divides by its
// inverse, and which value.
func (q *quantiser) times(i int, by float64) (string, bool) {
	n := &q.g.Nodes[i]
	if len(n.Inputs) != 2 {
		return "", false
	}
	switch n.Op {
	case "Div":
		return n.Inputs[0], q.number(n.Inputs[1], 1/by)
	case "Mul":
		if q.number(n.Inputs[0], by) {
			return n.Inputs[1], true
		}
		return n.Inputs[0], q.number(n.Inputs[1], by)
	}
	return "", false
}

// beside reports that a node's input beside the one named is a number.
func (q *quantiser) beside(i int, name string, v float64) bool { return q.number(q.other(i, name), v) }

// number reports that a name is the constant of one element v, nearly.
func (q *quantiser) number(name string, v float64) bool {
	t := q.constants[name]
	if t == nil || t.DType != onnx.FLOAT || t.Elements() != 1 {
		return false
	}
	x, err := numbers(t)
	return err == nil && math.Abs(float64(x[0])-v) < 1e-5*v
}
