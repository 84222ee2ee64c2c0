package qdq

import (
	"math"

	"mm-abi.org/mm/onnx"
)

// gelus replaces each GELU that the model writes in five nodes by one node,
// which can have a pair around it: x·(1+erf(x/√2))/2, with the half in any of
// the three places where exporters put it. ai.onnx has the operator since opset
// 20; before that it is ONNX Runtime's.
func (q *quantizer) gelus() {
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

// gelu matches the nodes around an Erf: it returns the input value, the node of
// the result, and the other nodes, which nothing else reads; nil if the Erf is
// part of something else.
func (q *quantizer) gelu(erf int) (x string, last int, inner []int) {
	root, ok := q.producer[q.g.Nodes[erf].Inputs[0]]
	if !ok || !q.only(root) {
		return "", 0, nil
	}
	if x, ok = q.times(root, math.Sqrt(0.5)); !ok {
		return "", 0, nil
	}
	one, ok := q.next(erf)
	if !ok || q.g.Nodes[one].Op != "Add" || !q.otherIs(one, q.g.Nodes[erf].Outputs[0], 1) {
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

// only reports whether a node has exactly one reader and no output that is a
// result.
func (q *quantizer) only(i int) bool {
	out := q.g.Nodes[i].Outputs
	return len(out) == 1 && len(q.consumers[out[0]]) == 1 && !q.results[out[0]]
}

// next returns the only reader of a node.
func (q *quantizer) next(i int) (int, bool) {
	if !q.only(i) {
		return 0, false
	}
	return q.consumers[q.g.Nodes[i].Outputs[0]][0], true
}

// other returns the input of a binary node other than the named one.
func (q *quantizer) other(i int, name string) string {
	in := q.g.Nodes[i].Inputs
	if len(in) != 2 || in[0] == in[1] {
		return ""
	}
	if in[0] == name {
		return in[1]
	}
	return in[0]
}

// times returns the value that a node multiplies by the number, or divides by
// its inverse, and reports whether it does.
func (q *quantizer) times(i int, by float64) (string, bool) {
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

// otherIs reports whether a node's input other than the named one is the number
// v.
func (q *quantizer) otherIs(i int, name string, v float64) bool { return q.number(q.other(i, name), v) }

// number reports whether a name is a constant of one element close to v.
func (q *quantizer) number(name string, v float64) bool {
	t := q.constants[name]
	if t == nil || t.DType != onnx.FLOAT || t.Elements() != 1 {
		return false
	}
	x, err := numbers(t)
	return err == nil && math.Abs(float64(x[0])-v) < 1e-5*v
}
