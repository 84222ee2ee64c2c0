package qdq

import (
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/onnx"
)

// kind is how an operator is treated.
type kind int

const (
	strange   kind = iota // stays floats
	computing             // worth its integers: products
	pointwise             // arithmetic element by element: follows its neighbours
	simple                // one input whose result has another range
	movement              // moves elements: its result has the scale of its input
	fragile               // loses too much in integers
)

// kinds of the operators that are known. What is not here stays floats.
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

// The reasons for which nodes stay floats.
const (
	whyFragile  = "its numbers span too many orders for integers"
	whyBeside   = "it belongs to an operator that stays floats"
	whyBetween  = "nothing around it is computed in integers"
	whyStrange  = "it is not among the operators that are quantised"
	whyStream   = "it is a residual stream that a normalization reads: eight bits lose what little each layer adds"
	whyMask     = "a number far below all others masks there, which would take the whole range of integers"
	whyAsked    = "it was to be kept"
	whyNoFloats = "it holds no float32 numbers"
)

// keeping collects why nodes stay floats.
type keeping struct {
	why map[int]string
	q   *quantiser
}

// list puts the nodes of one operator and one reason together, sorted.
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

// nodeName is a node's name, or its first output's where it has none.
func nodeName(n *onnx.Node) string {
	if n.Name != "" || len(n.Outputs) == 0 {
		return n.Name
	}
	return n.Outputs[0]
}

// choose decides which nodes are computed in integers.
func (q *quantiser) choose() error {
	q.integer = make([]bool, len(q.g.Nodes))
	q.kept = keeping{make(map[int]string), q}
	asked := make(map[string]bool)
	for _, name := range q.opt.Keep {
		asked[name] = false
	}
	for i := range q.g.Nodes {
		n := &q.g.Nodes[i]
		if len(q.subgraphs(n)) > 0 {
			return fmt.Errorf("node %q (%s) holds a graph: freeze the model first", n.Name, n.Op)
		}
		if _, ok := asked[nodeName(n)]; ok {
			asked[nodeName(n)], q.kept.why[i] = true, whyAsked
			continue
		}
		if why := q.refused(n); why != "" {
			q.kept.why[i] = why
		}
	}
	for _, name := range q.opt.Keep {
		if !asked[name] {
			return fmt.Errorf("there is no node %q to keep", name)
		}
	}
	q.masks()
	q.streams()
	q.neighbours()
	q.moving()
	for i := range q.g.Nodes {
		if _, keep := q.kept.why[i]; !keep {
			q.integer[i] = true
		}
	}
	return nil
}

func (q *quantiser) subgraphs(n *onnx.Node) (out []*onnx.Graph) {
	for i := range n.Attributes {
		out = append(out, n.Attributes[i].Subgraphs()...)
	}
	return out
}

// refused says why a node stays floats by itself.
func (q *quantiser) refused(n *onnx.Node) string {
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
			return "no finite number was seen in it"
		}
	}
	switch n.Op {
	case "Gemm":
		for _, a := range n.Attributes {
			if (a.Name == "alpha" || a.Name == "beta") && a.Float != 1 || a.Name == "transA" && a.Int != 0 {
				return "its factors or a transposed first input are not computed in integers"
			}
		}
	case "Conv", "ConvTranspose":
		if len(n.Inputs) < 2 || !q.floatConstant(n.Inputs[1]) || len(n.Inputs) > 2 && n.Inputs[2] != "" && !q.floatConstant(n.Inputs[2]) {
			return "its weights are no constant"
		}
	case "MatMul":
		if q.kind == onnx.UINT16 && q.constants[n.Inputs[0]] != nil {
			return "a constant of 16 bits as the first factor is taken by no NPU's compiler that is known"
		}
	case "Pad":
		if len(n.Inputs) > 2 && n.Inputs[2] != "" {
			return "it pads with a number of its own"
		}
	case "Div":
		if q.constants[n.Inputs[1]] == nil {
			return "it divides by what is no constant"
		}
	}
	return ""
}

func (q *quantiser) floatConstant(name string) bool {
	t := q.constants[name]
	return t != nil && t.DType == onnx.FLOAT
}

// masks keeps floats the sums with a mask, and the softmax behind them.
func (q *quantiser) masks() {
	const far = 100 // below it exp is 0 in all but the widest types
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

// streams keeps floats the sums that normalizations read, where values have eight
// bits: a transformer's residual stream is the sum of all layers before, so that
// one step of its integers is as large as what a layer adds to it.
func (q *quantiser) streams() {
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

// neighbours keeps arithmetic floats that is part of an operator written in
// several nodes, of which one is fragile: what feeds it, and what follows up to
// the next operator of another kind. GELU and norms are such.
func (q *quantiser) neighbours() {
	beside := func(i int) {
		if _, keep := q.kept.why[i]; !keep && kindOf(&q.g.Nodes[i]) == pointwise {
			q.kept.why[i] = whyBeside
		}
	}
	for i := range q.g.Nodes { // in the order of the graph, so that chains are followed
		n := &q.g.Nodes[i]
		whole := kindOf(n) == fragile && len(n.Inputs) > 1 // a norm in one node
		if q.kept.why[i] == whyFragile && !whole {
			for _, name := range n.Inputs {
				if p, ok := q.producer[name]; ok {
					beside(p)
				}
			}
		}
		if (q.kept.why[i] == whyFragile && !whole) || q.kept.why[i] == whyBeside {
			for _, name := range n.Outputs {
				for _, c := range q.consumers[name] {
					beside(c)
				}
			}
		}
	}
	for i := range q.g.Nodes { // x·½ beside erf(x): what only feeds such a chain
		n := &q.g.Nodes[i]
		if _, keep := q.kept.why[i]; keep || kindOf(n) != pointwise {
			continue
		}
		if all(q.consumers[n.Outputs[0]], func(c int) bool { return q.kept.why[c] == whyBeside }) && !q.results[n.Outputs[0]] {
			q.kept.why[i] = whyBeside
		}
	}
}

func all[T any](list []T, ok func(T) bool) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(x T) bool { return !ok(x) })
}

// moving keeps floats what moves elements between operators that stay floats.
func (q *quantiser) moving() {
	near := make(map[int]bool) // computed in integers, or beside what is, through what moves
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

func (q *quantiser) isMoving(i int) bool {
	_, keep := q.kept.why[i]
	return !keep && kindOf(&q.g.Nodes[i]) == movement
}

// readers are the nodes that read what a node gives.
func (q *quantiser) readers(i int) (out []int) {
	for _, name := range q.g.Nodes[i].Outputs {
		out = append(out, q.consumers[name]...)
	}
	return out
}

// unify has what moves elements share one scale with its input.
func (q *quantiser) unify() {
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
	for name, root := range q.class { // a minimum and a maximum: in any order
		q.ranges[root] = q.ranges[root].with(q.ranges[name])
	}
}

func (q *quantiser) classOf(name string) string {
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
