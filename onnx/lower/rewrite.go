package lower

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
)

// same are the operators whose inputs and name do not change.
var same = map[string]Op{
	"Add": Add, "Sub": Sub, "Mul": Mul, "Div": Div, "Pow": Pow, "Equal": Equal, "Less": Less, "Greater": Greater, "And": And, "Or": Or, "Not": Not, "Where": Where,
	"Abs": Abs, "Neg": Neg, "Exp": Exp, "Log": Log, "Sqrt": Sqrt, "Erf": Erf, "Sin": Sin, "Cos": Cos, "Floor": Floor, "Ceil": Ceil, "Round": Round, "Reciprocal": Reciprocal,
	"Relu": Relu, "Sigmoid": Sigmoid, "Tanh": Tanh, "HardSwish": HardSwish, "Softplus": Softplus,
}

// call is a node being rewritten.
type call struct {
	*lowering
	n   *onnx.Node
	in  []*Value // nil for omitted inputs
	out *Value   // the first result
}

// rewrite appends the operators of a node unless its results are constant.
func (l *lowering) rewrite(n *onnx.Node) {
	if len(subgraphs(n)) > 0 || !slices.ContainsFunc(n.Outputs, func(o string) bool { return o != "" && !l.constant[o] }) {
		return
	}
	c := &call{lowering: l, n: n}
	for _, name := range n.Inputs {
		var v *Value
		if name != "" {
			var err error
			if v, err = l.value(name); err != nil {
				l.fail(n, "%v", err)
				return
			}
		}
		c.in = append(c.in, v)
	}
	out, err := l.value(n.Outputs[0])
	if err != nil {
		l.fail(n, "%v", err)
		return
	}
	c.out = out
	if err := c.lower(); err != nil {
		l.fail(n, "%v", err)
	}
}

// lower selects the rewriting of the node.
func (c *call) lower() error {
	if op, ok := same[c.n.Op]; ok {
		c.emit(&Node{Op: op})
		return nil
	}
	f := rewritings[c.n.Op]
	if f == nil {
		return fmt.Errorf("unsupported operator")
	}
	return f(c)
}

// rewritings lower the other operators.
var rewritings = map[string]func(*call) error{
	"Identity": (*call).reshape, "Dropout": (*call).reshape, "Reshape": (*call).reshape, "Flatten": (*call).reshape, "Squeeze": (*call).reshape, "Unsqueeze": (*call).reshape,
	"Min": func(c *call) error { return c.fold(Min) }, "Max": func(c *call) error { return c.fold(Max) }, "Sum": func(c *call) error { return c.fold(Add) },
	"LessOrEqual": func(c *call) error { return c.negated(Greater) }, "GreaterOrEqual": func(c *call) error { return c.negated(Less) },
	"Cast": (*call).cast, "Clip": (*call).clip, "LeakyRelu": (*call).leaky, "Elu": (*call).elu, "HardSigmoid": (*call).hardSigmoid, "PRelu": (*call).prelu,
	"Gelu": (*call).gelu, "FastGelu": (*call).fastGelu, "BiasGelu": (*call).biasGelu, "QuickGelu": (*call).quickGelu, "Softmax": (*call).softmax,
	"LayerNormalization": (*call).layerNorm, "SkipLayerNormalization": (*call).skipNorm, "SimplifiedLayerNormalization": (*call).rmsNorm, "RMSNormalization": (*call).rmsNorm,
	"BatchNormalization": (*call).batchNorm, "InstanceNormalization": (*call).instanceNorm,
	"Conv": (*call).conv, "ConvTranspose": (*call).convTranspose, "MatMul": (*call).matMul, "Gemm": (*call).gemm, "MaxPool": (*call).pool, "AveragePool": (*call).pool,
	"GlobalAveragePool": func(c *call) error { return c.global(ReduceMean) }, "GlobalMaxPool": func(c *call) error { return c.global(ReduceMax) },
	"ReduceMean": func(c *call) error { return c.reduce(ReduceMean) }, "ReduceSum": func(c *call) error { return c.reduce(ReduceSum) },
	"ReduceMax": func(c *call) error { return c.reduce(ReduceMax) }, "ReduceMin": func(c *call) error { return c.reduce(ReduceMin) },
	"Transpose": (*call).transpose, "Concat": (*call).concat, "Slice": (*call).slice, "Split": (*call).split, "Gather": (*call).gather, "Pad": (*call).pad,
	"Expand": (*call).expand, "Tile": (*call).tile, "Resize": (*call).resize, "DepthToSpace": (*call).depthToSpace,
}

// emit appends a node of the call's inputs and result, unless it has its own.
func (c *call) emit(n *Node) *Value {
	if n.In == nil {
		n.In = c.in
	}
	if n.Out == nil {
		n.Out = c.out
	}
	if n.Name = c.n.Name; n.Name == "" {
		n.Name = c.out.Name
	}
	c.nodes = append(c.nodes, n)
	return n.Out
}

// then emits a node with a new result of the shape and returns it.
func (c *call) then(n *Node, shape []int) *Value {
	n.Out = c.temp(n.In[0].Type, shape)
	return c.emit(n)
}

func (c *call) attribute(name string) *onnx.Attribute {
	for i := range c.n.Attributes {
		if c.n.Attributes[i].Name == name {
			return &c.n.Attributes[i]
		}
	}
	return nil
}

func (c *call) int(name string, absent int) int {
	if a := c.attribute(name); a != nil {
		return int(a.Int)
	}
	return absent
}

func (c *call) float(name string, absent float32) float32 {
	if a := c.attribute(name); a != nil {
		return a.Float
	}
	return absent
}

func (c *call) text(name, absent string) string {
	if a := c.attribute(name); a != nil {
		return string(a.String)
	}
	return absent
}

// list returns a list from an attribute, nil if it is absent.
func (c *call) list(name string) []int {
	if a := c.attribute(name); a != nil {
		return ints(a.Ints)
	}
	return nil
}

// at returns an input, nil if it is omitted.
func (c *call) at(i int) *Value {
	if i < len(c.in) {
		return c.in[i]
	}
	return nil
}

// constants returns the integers of an input that must be constant, or those of an
// attribute of older opsets.
func (c *call) constants(i int, attribute string) ([]int, error) {
	v := c.at(i)
	switch {
	case v == nil:
		return c.list(attribute), nil
	case v.Const == nil:
		return nil, fmt.Errorf("input %d (%s) is not constant", i, v.Name)
	}
	return ints(v.Const.Ints), nil
}

// axis returns an axis that counts from the start.
func axis(a, rank int) int {
	if a < 0 {
		a += rank
	}
	return max(0, min(a, rank-1))
}

func rank(v *Value) int { return len(v.Shape) }

func (c *call) reshape() error {
	c.emit(&Node{Op: Reshape, In: c.in[:1]})
	return nil
}

// fold applies an operator of two operands to any number.
func (c *call) fold(op Op) error {
	acc := c.in[0]
	if len(c.in) == 1 {
		return c.reshape()
	}
	for i, v := range c.in[1:] {
		if i == len(c.in)-2 {
			c.emit(&Node{Op: op, In: []*Value{acc, v}})
			break
		}
		acc = c.then(&Node{Op: op, In: []*Value{acc, v}}, broadcast(acc.Shape, v.Shape))
	}
	return nil
}

// broadcast returns the shape of a result of two operands.
func broadcast(a, b []int) []int {
	if len(a) < len(b) {
		a, b = b, a
	}
	out := slices.Clone(a)
	for i := range b {
		at := len(a) - len(b) + i
		out[at] = max(out[at], b[i])
	}
	return out
}

func (c *call) negated(op Op) error {
	v := c.temp(Bool, c.out.Shape)
	c.emit(&Node{Op: op, Out: v})
	c.emit(&Node{Op: Not, In: []*Value{v}})
	return nil
}

func (c *call) cast() error {
	if c.in[0].Type == c.out.Type {
		return c.reshape()
	}
	c.emit(&Node{Op: Cast})
	return nil
}

func (c *call) clip() error {
	n := &Node{Op: Clip, In: c.in[:1], Low: c.float("min", float32(math.Inf(-1))), High: c.float("max", float32(math.Inf(1)))}
	for i, to := range []*float32{&n.Low, &n.High} {
		v := c.at(i + 1)
		switch {
		case v == nil:
		case v.Const == nil || len(v.Const.Floats) != 1:
			return fmt.Errorf("limit %s is not constant", v.Name)
		default:
			*to = v.Const.Floats[0]
		}
	}
	c.emit(n)
	return nil
}

func (c *call) leaky() error {
	c.emit(&Node{Op: LeakyRelu, Alpha: c.float("alpha", 0.01)})
	return nil
}

func (c *call) elu() error {
	c.emit(&Node{Op: Elu, Alpha: c.float("alpha", 1)})
	return nil
}

func (c *call) hardSigmoid() error {
	c.emit(&Node{Op: HardSigmoid, Alpha: c.float("alpha", 0.2), Beta: c.float("beta", 0.5)})
	return nil
}

// prelu writes max(x, 0) + slope·min(x, 0).
func (c *call) prelu() error {
	x, zero := c.in[0], c.floats([]int{1}, 0)
	positive := c.then(&Node{Op: Relu, In: []*Value{x}}, x.Shape)
	negative := c.then(&Node{Op: Min, In: []*Value{x, zero}}, x.Shape)
	scaled := c.then(&Node{Op: Mul, In: []*Value{negative, c.in[1]}}, x.Shape)
	c.emit(&Node{Op: Add, In: []*Value{positive, scaled}})
	return nil
}

func (c *call) gelu() error {
	c.emit(&Node{Op: Gelu, In: c.in[:1], Mode: c.text("approximate", "none")})
	return nil
}

// fastGelu adds a bias, if any, before the tanh form.
func (c *call) fastGelu() error {
	x := c.in[0]
	if b := c.at(1); b != nil {
		x = c.then(&Node{Op: Add, In: []*Value{x, b}}, x.Shape)
	}
	c.emit(&Node{Op: Gelu, In: []*Value{x}, Mode: "tanh"})
	return nil
}

func (c *call) biasGelu() error {
	x := c.then(&Node{Op: Add, In: c.in[:2]}, c.out.Shape)
	c.emit(&Node{Op: Gelu, In: []*Value{x}, Mode: "none"})
	return nil
}

// quickGelu writes x·σ(αx).
func (c *call) quickGelu() error {
	x := c.in[0]
	scaled := c.then(&Node{Op: Mul, In: []*Value{x, c.floats([]int{1}, c.float("alpha", 1.702))}}, x.Shape)
	gate := c.then(&Node{Op: Sigmoid, In: []*Value{scaled}}, x.Shape)
	c.emit(&Node{Op: Mul, In: []*Value{x, gate}})
	return nil
}

// softmax lowers Softmax; before opset 13 it covered all dimensions from the axis on.
func (c *call) softmax() error {
	r, absent := rank(c.in[0]), -1
	if c.opset() < 13 {
		absent = 1
	}
	a := axis(c.int("axis", absent), r)
	if c.opset() < 13 && a != r-1 {
		return fmt.Errorf("axis %d of %d dimensions in opset %d", a, r, c.opset())
	}
	c.emit(&Node{Op: Softmax, Axis: a})
	return nil
}

// opset returns the version of the standard operators.
func (c *call) opset() int64 {
	for _, o := range c.model.Opsets {
		if o.Domain == "" || o.Domain == "ai.onnx" {
			return o.Version
		}
	}
	return 0
}
