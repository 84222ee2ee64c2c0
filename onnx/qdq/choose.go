package qdq

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/onnx"
)

// kind selects the treatment of an operator.
type kind int

const (
	strange   kind = iota // stays floats
	computing             // profits from integers: products
	pointwise             // elementwise arithmetic: treated like its neighbors
	simple                // one input, result with a different range
	movement              // moves elements: its result has the scale of its input
	fragile               // loses too much in integers
)

// kinds lists the known operators. All others stay floats.
var kinds = map[string]kind{
	"Conv": computing, "ConvTranspose": computing, "MatMul": computing, "Gemm": computing,
	"Add": pointwise, "Sub": pointwise, "Mul": pointwise, "Div": pointwise,
	"Relu": simple, "LeakyRelu": simple, "Clip": simple, "Sigmoid": simple, "Tanh": simple, "HardSwish": simple, "HardSigmoid": simple,
	"Softmax": simple, "AveragePool": simple, "GlobalAveragePool": simple, "Concat": simple,
	"MaxPool": movement, "Pad": movement, "Reshape": movement, "Transpose": movement, "Slice": movement, "Squeeze": movement, "Unsqueeze": movement, "Flatten": movement,
	"DepthToSpace": movement, "SpaceToDepth": movement, "Split": movement, "Gather": movement, "Tile": movement, "Expand": movement, "Identity": movement,
	"Erf": fragile, "Exp": fragile, "Log": fragile, "Pow": fragile, "Sqrt": fragile, "Reciprocal": fragile, "ReduceMean": fragile, "ReduceSum": fragile,
	"ReduceSumSquare": fragile, "ReduceL2": fragile, "LayerNormalization": fragile, "InstanceNormalization": fragile, "GroupNormalization": fragile,
	"RMSNormalization": fragile, "SimplifiedLayerNormalization": fragile, "BatchNormalization": fragile, "Sin": fragile, "Cos": fragile, "CumSum": fragile,
}

func kindOf(n *onnx.Node) kind {
	if n.Op == "Gelu" {
		return simple
	}
	if n.Domain != "" && n.Domain != "ai.onnx" {
		return strange
	}
	return kinds[n.Op]
}

// The reasons why nodes stay floats.
const (
	whyFragile  = "values span too many orders of magnitude for integers"
	whyAdjacent = "part of an operator that stays floats"
	whyBetween  = "no adjacent node is computed in integers"
	whyStrange  = "operator is not supported in integers"
	whyStream   = "residual stream read by a normalization: eight bits lose the small contribution of each layer"
	whyMask     = "a mask value far below all others would take the full range of integers"
	whyAsked    = "excluded by name"
	whyNoFloats = "no float32 values"
)

// keeping collects the reasons why nodes stay floats.
type keeping struct {
	why map[int]string
	q   *quantizer
}

// list groups the nodes by operator and reason, sorted.
func (k keeping) list() []Kept {
	var out []Kept
	for i := range k.q.g.Nodes {
		why, ok := k.why[i]
		if !ok {
			continue
		}
		n := &k.q.g.Nodes[i]
		at := slices.IndexFunc(out, func(o Kept) bool { return o.Op == n.Op && o.Why == why })
		if at < 0 {
			at, out = len(out), append(out, Kept{Op: n.Op, Why: why})
		}
		out[at].Nodes = append(out[at].Nodes, nodeName(n))
	}
	slices.SortFunc(out, func(a, b Kept) int { return strings.Compare(a.Op+"\x00"+a.Why, b.Op+"\x00"+b.Why) })
	return out
}

// nodeName returns a node's name, or that of its first output if it has none.
func nodeName(n *onnx.Node) string {
	if n.Name != "" || len(n.Outputs) == 0 {
		return n.Name
	}
	return n.Outputs[0]
}

// choose decides which nodes are computed in integers.
func (q *quantizer) choose() error {
	q.integer = make([]bool, len(q.g.Nodes))
	q.kept = keeping{make(map[int]string), q}
	requested := make(map[string]bool)
	for _, name := range q.opt.Keep {
		requested[name] = false
	}
	for i := range q.g.Nodes {
		n := &q.g.Nodes[i]
		if len(q.subgraphs(n)) > 0 {
			return fmt.Errorf("node %q (%s) has a subgraph: freeze the model first", n.Name, n.Op)
		}
		if _, ok := requested[nodeName(n)]; ok {
			requested[nodeName(n)], q.kept.why[i] = true, whyAsked
			continue
		}
		if why := q.refused(n); why != "" {
			q.kept.why[i] = why
		}
	}
	for _, name := range q.opt.Keep {
		if !requested[name] {
			return fmt.Errorf("unknown node %q to keep", name)
		}
	}
	q.masks()
	q.streams()
	q.neighbors()
	q.moving()
	for i := range q.g.Nodes {
		if _, keep := q.kept.why[i]; !keep {
			q.integer[i] = true
		}
	}
	return nil
}

func (q *quantizer) subgraphs(n *onnx.Node) (out []*onnx.Graph) {
	for i := range n.Attributes {
		out = append(out, n.Attributes[i].Subgraphs()...)
	}
	return out
}

// refused returns the reason why a node by itself stays floats, or "".
func (q *quantizer) refused(n *onnx.Node) string {
	switch kindOf(n) {
	case strange:
		return whyStrange
	case fragile:
		return whyFragile
	}
	if len(n.Outputs) != 1 && kindOf(n) != movement || slices.ContainsFunc(n.Outputs, func(o string) bool { return o != "" && !q.float(o) }) {
		return whyNoFloats
	}
	if len(n.Inputs) == 0 || !q.float(n.Inputs[0]) && !q.floatConstant(n.Inputs[0]) {
		return whyNoFloats
	}
	for _, name := range slices.Concat(n.Inputs[:1], n.Outputs) {
		if r, ok := q.ranges[name]; ok && r.Low > r.High {
			return "no finite value was observed"
		}
	}
	switch n.Op {
	case "Gemm":
		for _, a := range n.Attributes {
			if (a.Name == "alpha" || a.Name == "beta") && a.Float != 1 || a.Name == "transA" && a.Int != 0 {
				return "factors or a transposed first input are not supported in integers"
			}
		}
	case "Conv", "ConvTranspose":
		if len(n.Inputs) < 2 || !q.floatConstant(n.Inputs[1]) || len(n.Inputs) > 2 && n.Inputs[2] != "" && !q.floatConstant(n.Inputs[2]) {
			return "weights are not constant"
		}
	case "MatMul":
		if q.kind == onnx.UINT16 && q.constants[n.Inputs[0]] != nil {
			return "no known NPU compiler accepts a 16-bit constant as the first factor"
		}
	case "Pad":
		if len(n.Inputs) > 2 && n.Inputs[2] != "" {
			return "padding with a nonzero number"
		}
	case "Div":
		if q.constants[n.Inputs[1]] == nil {
			return "division by a non-constant"
		}
	}
	return ""
}

func (q *quantizer) floatConstant(name string) bool {
	t := q.constants[name]
	return t != nil && t.DType == onnx.FLOAT
}

// masks keeps sums with a mask, and the softmax after them, as floats.
func (q *quantizer) masks() {
	const far = 100 // exp of less is 0 except in the widest types
	for i := range q.g.Nodes {
		n := &q.g.Nodes[i]
		if _, keep := q.kept.why[i]; keep || n.Op != "Softmax" {
			continue
		}
		p, ok := q.producer[n.Inputs[0]]
		if !ok || q.g.Nodes[p].Op != "Add" && q.g.Nodes[p].Op != "Where" || q.ranges[n.Inputs[0]].Low > -far {
			continue
		}
		for _, name := range q.g.Nodes[p].Inputs {
			if t := q.constants[name]; t != nil && t.DType == onnx.FLOAT && lowest(t) <= -far {
				q.kept.why[i], q.kept.why[p] = whyMask, whyMask
			}
		}
	}
}

// streams keeps the sums that normalizations read as floats if values have
// eight bits: a transformer's residual stream is the sum of all previous
// layers, so that one step of its integers is as large as the contribution of a
// layer.
func (q *quantizer) streams() {
	if q.kind != onnx.UINT8 {
		return
	}
	for i := range q.g.Nodes {
		n := &q.g.Nodes[i]
		if _, keep := q.kept.why[i]; keep || n.Op != "Add" {
			continue
		}
		if slices.ContainsFunc(q.readers(i), func(c int) bool { return strings.HasSuffix(q.g.Nodes[c].Op, "Normalization") }) {
			q.kept.why[i] = whyStream
		}
	}
}

func lowest(t *onnx.Tensor) (low float32) {
	x, err := numbers(t)
	if err != nil {
		return 0
	}
	for _, v := range x {
		low = min(low, v)
	}
	return low
}

// neighbors keeps arithmetic as floats if it is part of an operator written in
// several nodes, one of which is fragile: the inputs, and the following nodes
// up to the next operator of another kind. GELU and norms are such operators.
func (q *quantizer) neighbors() {
	exclude := func(i int) {
		if _, keep := q.kept.why[i]; !keep && kindOf(&q.g.Nodes[i]) == pointwise {
			q.kept.why[i] = whyAdjacent
		}
	}
	for i := range q.g.Nodes { // in graph order, to follow chains
		n := &q.g.Nodes[i]
		single := kindOf(n) == fragile && len(n.Inputs) > 1 // a norm in one node
		if q.kept.why[i] == whyFragile && !single {
			for _, name := range n.Inputs {
				if p, ok := q.producer[name]; ok {
					exclude(p)
				}
			}
		}
		if (q.kept.why[i] == whyFragile && !single) || q.kept.why[i] == whyAdjacent {
			for _, name := range n.Outputs {
				for _, c := range q.consumers[name] {
					exclude(c)
				}
			}
		}
	}
	for i := range q.g.Nodes { // x·½ next to erf(x): used only by such a chain
		n := &q.g.Nodes[i]
		if _, keep := q.kept.why[i]; keep || kindOf(n) != pointwise {
			continue
		}
		if all(q.consumers[n.Outputs[0]], func(c int) bool { return q.kept.why[c] == whyAdjacent }) && !q.results[n.Outputs[0]] {
			q.kept.why[i] = whyAdjacent
		}
	}
}

func all[T any](list []T, ok func(T) bool) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(x T) bool { return !ok(x) })
}

// moving keeps nodes that only move elements between operators that stay floats
// as floats.
func (q *quantizer) moving() {
	near := make(map[int]bool) // computed in integers, or connected to such a node by moving nodes
	for i := range q.g.Nodes {
		_, keep := q.kept.why[i]
		near[i] = !keep && kindOf(&q.g.Nodes[i]) != movement
	}
	for i := range q.g.Nodes {
		n := &q.g.Nodes[i]
		if p, ok := q.producer[first(n)]; ok && q.isMoving(i) && near[p] {
			near[i] = true
		}
	}
	for i := len(q.g.Nodes) - 1; i >= 0; i-- {
		if q.isMoving(i) && !near[i] {
			near[i] = all(q.readers(i), func(c int) bool { return near[c] })
		}
		if q.isMoving(i) && !near[i] {
			q.kept.why[i] = whyBetween
		}
	}
}

func (q *quantizer) isMoving(i int) bool {
	_, keep := q.kept.why[i]
	return !keep && kindOf(&q.g.Nodes[i]) == movement
}

// readers returns the nodes that read the outputs of a node.
func (q *quantizer) readers(i int) (out []int) {
	for _, name := range q.g.Nodes[i].Outputs {
		out = append(out, q.consumers[name]...)
	}
	return out
}

// unify makes the outputs of moving nodes share the scale of their inputs.
func (q *quantizer) unify() {
	q.class = make(map[string]string)
	for i := range q.g.Nodes {
		n := &q.g.Nodes[i]
		if !q.integer[i] || kindOf(n) != movement || !q.float(n.Inputs[0]) {
			continue
		}
		for _, name := range n.Outputs {
			if name != "" {
				q.class[name] = q.classOf(n.Inputs[0])
			}
		}
	}
	for name, root := range q.class { // minimum and maximum: order does not matter
		q.ranges[root] = q.ranges[root].with(q.ranges[name])
	}
}

func (q *quantizer) classOf(name string) string {
	if c, ok := q.class[name]; ok {
		return c
	}
	return name
}

func first(n *onnx.Node) string {
	if len(n.Inputs) == 0 {
		return ""
	}
	return n.Inputs[0]
}
