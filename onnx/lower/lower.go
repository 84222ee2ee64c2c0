// Package lower turns ONNX models into graphs of a small set of operators with
// fixed shapes, which exporters write in other formats.
//
// [Lower] executes the model once on sample inputs with the in-tree engine, which
// determines the shape of every value, and the contents of those that depend on no
// input: they become constants. The remaining nodes are rewritten: biases, strides
// and pads are explicit, products of Gemm are MatMul and Add, batch normalization
// is folded into the convolution before it, the error-function form of GELU is one
// operator, and reshapes have constant shapes. A node that cannot be rewritten is
// reported by its name and operator, together with all others. 16-bit floats are
// widened to Float32 and narrow integers to Int32, at inputs and outputs as well.
//
// [Graph.Model] converts a graph back to ONNX, so that tests hold the rewriting by
// the numbers.
//
// Letters: N batch, C channels, H and W rows and columns; tensors are N×C×H×W as in
// ONNX.
package lower

import (
	"context"
	"fmt"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
)

// Element is the type of elements of a value.
type Element uint8

// The element types.
const (
	Float32 Element = iota
	Int64
	Int32
	Bool
)

// String returns ONNX's name of the type.
func (e Element) String() string { return [...]string{"float32", "int64", "int32", "bool"}[e] }

// Op is an operator.
type Op string

// The operators. Operands are broadcast as in
// ONNX, and attributes are those of [Node].
const (
	Add, Sub, Mul, Div, Pow, Min, Max Op = "Add", "Sub", "Mul", "Div", "Pow", "Min", "Max"
	Equal, Less, Greater              Op = "Equal", "Less", "Greater" // results are Bool
	And, Or, Not                      Op = "And", "Or", "Not"
	Where                             Op = "Where" // condition, if true, if false

	Abs, Neg, Exp, Log, Sqrt, Erf, Sin, Cos, Floor, Ceil, Round, Reciprocal Op = "Abs", "Neg", "Exp", "Log", "Sqrt", "Erf", "Sin", "Cos", "Floor", "Ceil", "Round", "Reciprocal"
	Relu, Sigmoid, Tanh, HardSwish, Softplus                                Op = "Relu", "Sigmoid", "Tanh", "HardSwish", "Softplus"
	Gelu                                                                    Op = "Gelu"             // Mode is "none" or "tanh"
	LeakyRelu, Elu                                                          Op = "LeakyRelu", "Elu" // Alpha
	HardSigmoid                                                             Op = "HardSigmoid"      // Alpha, Beta
	Clip                                                                    Op = "Clip"             // Low, High
	Cast                                                                    Op = "Cast"             // to the element of Out

	Conv, ConvTranspose Op = "Conv", "ConvTranspose" // x, weights C'×C/groups×…, bias C' or absent; Strides, Dilations, Before, After, Groups
	MatMul              Op = "MatMul"                // the last two dimensions; TransposeB
	Softmax             Op = "Softmax"               // Axis
	LayerNorm           Op = "LayerNorm"             // x, gain and bias of the dimensions from Axis on; Epsilon
	RMSNorm             Op = "RMSNorm"               // x, gain; Epsilon
	MaxPool, AvgPool    Op = "MaxPool", "AvgPool"    // Kernel, Strides, Before, After; Counted: pads count in averages

	ReduceMean, ReduceSum, ReduceMax, ReduceMin Op = "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin" // Axes, Keep

	Reshape   Op = "Reshape"   // to the shape of Out
	Transpose Op = "Transpose" // Perm
	Concat    Op = "Concat"    // Axis
	Slice     Op = "Slice"     // Starts and Steps of all dimensions; ends follow from the shape of Out
	Gather    Op = "Gather"    // data, indices; Axis
	Pad       Op = "Pad"       // Before, After of all dimensions; Low is the value; Mode is "constant", "reflect" or "edge"
	Tile      Op = "Tile"      // by shape of Out
	Resize    Op = "Resize"    // to the shape of Out; Mode is "nearest", "linear" or "cubic"; Corner
)

// Graph is a lowered model. Nodes are in order of execution.
type Graph struct {
	Name    string
	Inputs  []*Value
	Outputs []*Value
	Nodes   []*Node
}

// Value is a tensor between nodes.
type Value struct {
	Name  string
	Type  Element
	Shape []int
	Const *Const // nil: computed, or an input
	// Declared is the type in the model, which Type may widen; 0 for values that the
	// model does not have.
	Declared onnx.DType
}

// Const is the contents of a constant, row by row. One of the fields is set.
type Const struct {
	Floats []float32 // of Float32
	Ints   []int64   // of the other types; Bool is 0 or 1
}

// Size returns the number of elements.
func (v *Value) Size() int {
	n := 1
	for _, d := range v.Shape {
		n *= d
	}
	return n
}

// Node is an operation with one result.
type Node struct {
	Op   Op
	Name string // of the ONNX node
	In   []*Value
	Out  *Value

	Strides, Dilations, Kernel []int
	Before, After              []int // pads
	Groups                     int
	Counted                    bool // pads count in averages
	Axis                       int  // not negative
	Axes, Perm, Starts, Steps  []int
	Keep                       bool // keeps reduced dimensions
	TransposeB                 bool
	Epsilon, Alpha, Beta       float32
	Low, High                  float32
	Mode                       string
	Corner                     string // coordinates of Resize: half_pixel, asymmetric, align_corners, pytorch_half_pixel
}

// Problem is a node that cannot be lowered.
type Problem struct {
	Node, Op string
	Reason   string
}

// String formats the problem.
func (p Problem) String() string { return fmt.Sprintf("node %q (%s): %s", p.Node, p.Op, p.Reason) }

// Lower lowers a model. The sample inputs fix the shapes; values that depend on their
// contents alone stay computed. Problems are all nodes that cannot be lowered; the
// graph is then nil.
func Lower(ctx context.Context, m *onnx.Model, sample map[string]engine.Tensor) (*Graph, []Problem, error) {
	l := &lowering{model: m, values: map[string]*Value{}, constant: map[string]bool{}, sample: sample}
	if err := l.trace(ctx); err != nil {
		return nil, nil, fmt.Errorf("lowering %s: %w", m.Graph.Name, err)
	}
	g := &Graph{Name: m.Graph.Name}
	for _, in := range m.Inputs() {
		v, err := l.value(in.Name)
		if err != nil {
			return nil, nil, fmt.Errorf("lowering %s: %w", m.Graph.Name, err)
		}
		g.Inputs = append(g.Inputs, v)
	}
	for i := range m.Graph.Nodes {
		if len(l.problems) > 0 && l.seen == nil {
			break // without the sample run only these are known
		}
		l.rewrite(&m.Graph.Nodes[i])
	}
	if len(l.problems) > 0 {
		return nil, l.problems, nil
	}
	for _, out := range m.Graph.Outputs {
		v, err := l.value(out.Name)
		if err != nil {
			return nil, nil, fmt.Errorf("lowering %s: %w", m.Graph.Name, err)
		}
		g.Outputs = append(g.Outputs, v)
	}
	g.Nodes = l.nodes
	g.simplify()
	return g, nil, nil
}

// lowering is the state of [Lower].
type lowering struct {
	model    *onnx.Model
	sample   map[string]engine.Tensor
	seen     map[string]engine.Tensor // values of the sample run
	values   map[string]*Value
	constant map[string]bool // depends on no input
	nodes    []*Node
	problems []Problem
	fresh    int
}

// trace executes the model and finds which values are constant.
func (l *lowering) trace(ctx context.Context) error {
	g := &l.model.Graph
	var names []string
	for i := range g.Initializers {
		l.constant[g.Initializers[i].Name] = true
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if len(subgraphs(n)) > 0 {
			l.fail(n, "subgraphs are not supported")
			continue
		}
		if d := n.Domain; d != "" && d != "ai.onnx" && d != "com.microsoft" {
			l.fail(n, "unsupported domain")
			continue
		}
		all := n.Op != "RandomNormal" && n.Op != "RandomUniform" && n.Op != "RandomNormalLike" && n.Op != "RandomUniformLike"
		for _, in := range n.Inputs {
			all = all && (in == "" || l.constant[in])
		}
		for _, out := range n.Outputs {
			if out == "" {
				continue
			}
			l.constant[out] = all || n.Op == "Shape" || n.Op == "Size"
			names = append(names, out)
		}
	}
	if len(l.problems) > 0 || len(names) == 0 {
		return nil
	}
	all, err := l.model.Cut(names...)
	if err != nil {
		return err
	}
	p, err := engine.Compile(ctx, all, engine.Options{})
	if err != nil {
		return err
	}
	defer p.Close()
	l.seen, err = p.Run(ctx, l.sample)
	return err
}

func subgraphs(n *onnx.Node) (out []*onnx.Graph) {
	for i := range n.Attributes {
		out = append(out, n.Attributes[i].Subgraphs()...)
	}
	return out
}

// fail records a problem.
func (l *lowering) fail(n *onnx.Node, format string, args ...any) {
	name := n.Name
	if name == "" && len(n.Outputs) > 0 {
		name = n.Outputs[0]
	}
	op := n.Op
	if n.Domain != "" {
		op = n.Domain + "." + op
	}
	p := Problem{Node: name, Op: op, Reason: fmt.Sprintf(format, args...)}
	if !slices.Contains(l.problems, p) {
		l.problems = append(l.problems, p)
	}
}
