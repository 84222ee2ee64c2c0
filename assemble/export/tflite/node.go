package tflite

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/onnx/lower"
)

// unary are the operators of one operand that both formats have.
var unary = map[lower.Op]Code{
	lower.Abs: Abs, lower.Neg: Neg, lower.Exp: Exp, lower.Log: Log, lower.Sqrt: Sqrt, lower.Sin: Sin, lower.Cos: Cos, lower.Floor: Floor, lower.Ceil: Ceil, lower.Round: Round,
	lower.Relu: Relu, lower.Sigmoid: Logistic, lower.Tanh: Tanh, lower.HardSwish: HardSwish, lower.Not: LogicalNot,
}

// pairs are those of two operands.
var pairs = map[lower.Op]Code{
	lower.Add: Add, lower.Sub: Sub, lower.Mul: Mul, lower.Div: Div, lower.Pow: Pow, lower.Min: Minimum, lower.Max: Maximum,
	lower.Equal: Equal, lower.Less: Less, lower.Greater: Greater, lower.And: LogicalAnd, lower.Or: LogicalOr,
}

var reductions = map[lower.Op]Code{lower.ReduceMean: Mean, lower.ReduceSum: Sum, lower.ReduceMax: ReduceMax, lower.ReduceMin: ReduceMin}

// none is the field of an activation, which is not fused.
var none = int8(0)

// node writes a node.
func (c *converter) node(n *lower.Node) error {
	if code, ok := unary[n.Op]; ok {
		c.each(n, func(x int, shape []int) int { return c.op(code, n.Out.Name, n.Out.Type, shape, []int{x}) })
		return nil
	}
	if code, ok := pairs[n.Op]; ok {
		return c.binary(n, code)
	}
	if code, ok := reductions[n.Op]; ok {
		c.plain(n, code, []int{c.get(n.In[0], plain), c.ints(n.Axes...)}, Option{0, n.Keep})
		return nil
	}
	switch n.Op {
	case lower.Conv:
		return c.conv(n)
	case lower.ConvTranspose:
		return c.transposed(n)
	case lower.MaxPool, lower.AvgPool:
		return c.pool(n)
	case lower.Resize:
		return c.resize(n)
	case lower.MatMul:
		return c.matMul(n)
	case lower.LayerNorm, lower.RMSNorm:
		c.norm(n)
		return nil
	case lower.Softmax:
		return c.softmax(n)
	case lower.Gather:
		return c.gather(n)
	}
	if c.activation(n) {
		return nil
	}
	return c.shaped(n)
}

// plain writes an operator in the model's layout.
func (c *converter) plain(n *lower.Node, code Code, in []int, options ...Option) {
	c.put(n.Out, plain, c.op(code, n.Out.Name, n.Out.Type, n.Out.Shape, in, options...))
}

// each writes an operator on single elements in the layout of its operand.
func (c *converter) each(n *lower.Node, do func(x int, shape []int) int) {
	l := c.prefers(n.In[0])
	shape := n.Out.Shape
	if l == channelsLast {
		shape = permuted(shape, last(len(shape)))
	}
	c.put(n.Out, l, do(c.get(n.In[0], l), shape))
}

// binary writes an operator of two operands. If one has channels at the end, the
// other is brought into that layout if their ranks are equal, or if it is a number.
func (c *converter) binary(n *lower.Node, code Code) error {
	var options []Option
	if code.options() != 0 {
		options = []Option{{0, none}}
	}
	a, b := n.In[0], n.In[1]
	l := max(c.prefers(a), c.prefers(b))
	r := len(n.Out.Shape)
	fits := func(v *lower.Value) bool { return len(v.Shape) == r || v.Size() == 1 }
	if l == plain || r < 3 || !fits(a) || !fits(b) {
		c.plain(n, code, []int{c.get(a, plain), c.get(b, plain)}, options...)
		return nil
	}
	operand := func(v *lower.Value) int {
		if v.Size() == 1 && len(v.Shape) < 3 {
			return c.get(v, plain)
		}
		if v.Const != nil { // permuted here, not by an operator
			return c.rotated(v)
		}
		return c.get(v, l)
	}
	shape := permuted(n.Out.Shape, last(r))
	c.put(n.Out, l, c.op(code, n.Out.Name, n.Out.Type, shape, []int{operand(a), operand(b)}, options...))
	return nil
}

// rotated adds a constant with channels at the end.
func (c *converter) rotated(v *lower.Value) int {
	if p := c.at[v]; p != nil && p[channelsLast] >= 0 {
		return p[channelsLast]
	}
	perm := last(len(v.Shape))
	w := &lower.Value{Name: v.Name + ".last", Type: v.Type, Shape: permuted(v.Shape, perm), Const: &lower.Const{Floats: rotate(v.Const.Floats, v.Shape, perm), Ints: rotate(v.Const.Ints, v.Shape, perm)}}
	t := c.constant(w)
	c.put(v, channelsLast, t)
	if c.at[v][plain] < 0 {
		c.at[v][plain] = c.constant(v)
	}
	return t
}

// rotate permutes the dimensions of a tensor.
func rotate[T any](x []T, shape, perm []int) []T {
	if x == nil {
		return nil
	}
	strides, n := make([]int, len(shape)), 1
	for i, d := range slices.Backward(shape) {
		strides[i], n = n, n*d
	}
	out, index := make([]T, n), make([]int, len(perm))
	for i := range out {
		at := 0
		for k, p := range perm {
			at += index[k] * strides[p]
		}
		out[i] = x[at]
		for k := len(perm) - 1; k >= 0; k-- {
			if index[k]++; index[k] < shape[perm[k]] {
				break
			}
			index[k] = 0
		}
	}
	return out
}

// activation writes the functions that take several operators.
func (c *converter) activation(n *lower.Node) bool {
	name := n.Out.Name
	f := func(x int, shape []int, code Code, suffix string, in []int) int {
		options := []Option{{0, none}}
		if code.options() == 0 {
			options = nil
		}
		return c.op(code, name+suffix, lower.Float32, shape, in, options...)
	}
	number := func(v float32) int { return c.floats([]int{1}, v) }
	switch n.Op {
	case lower.Gelu:
		c.each(n, func(x int, shape []int) int {
			if c.delegate {
				return c.geluParts(n, x, shape)
			}
			return c.op(Gelu, name, lower.Float32, shape, []int{x}, Option{0, n.Mode == "tanh"})
		})
	case lower.LeakyRelu:
		c.each(n, func(x int, shape []int) int {
			return c.op(LeakyRelu, name, lower.Float32, shape, []int{x}, Option{0, n.Alpha})
		})
	case lower.Elu:
		if n.Alpha != 1 {
			return false
		}
		c.each(n, func(x int, shape []int) int { return c.op(Elu, name, lower.Float32, shape, []int{x}) })
	case lower.Reciprocal:
		c.each(n, func(x int, shape []int) int { return f(x, shape, Div, "", []int{number(1), x}) })
	case lower.HardSigmoid:
		c.each(n, func(x int, shape []int) int {
			y := f(x, shape, Mul, ".scaled", []int{x, number(n.Alpha)})
			y = f(x, shape, Add, ".shifted", []int{y, number(n.Beta)})
			y = f(x, shape, Maximum, ".low", []int{y, number(0)})
			return f(x, shape, Minimum, "", []int{y, number(1)})
		})
	case lower.Softplus: // max(x, 0) + log(1 + exp(-|x|))
		c.each(n, func(x int, shape []int) int {
			y := f(x, shape, Abs, ".abs", []int{x})
			y = f(x, shape, Neg, ".neg", []int{y})
			y = f(x, shape, Exp, ".exp", []int{y})
			y = f(x, shape, Add, ".more", []int{y, number(1)})
			y = f(x, shape, Log, ".log", []int{y})
			return f(x, shape, Add, "", []int{y, f(x, shape, Relu, ".relu", []int{x})})
		})
	case lower.Clip:
		c.each(n, func(x int, shape []int) int { return c.clip(n, x, shape, f, number) })
	case lower.Cast:
		if n.Out.Type == lower.Bool || elements[n.In[0].Type] == elements[n.Out.Type] {
			return false
		}
		c.each(n, func(x int, shape []int) int {
			return c.op(Cast, name, n.Out.Type, shape, []int{x}, Option{0, int8(elements[n.In[0].Type])}, Option{1, int8(elements[n.Out.Type])})
		})
	default:
		return false
	}
	return true
}

func (c *converter) clip(n *lower.Node, x int, shape []int, f func(int, []int, Code, string, []int) int, number func(float32) int) int {
	low, high := !math.IsInf(float64(n.Low), -1), !math.IsInf(float64(n.High), 1)
	switch {
	case n.Low == 0 && n.High == 6:
		return f(x, shape, Relu6, "", []int{x})
	case n.Low == 0 && !high:
		return f(x, shape, Relu, "", []int{x})
	case !low && !high:
		return c.op(Reshape, n.Out.Name, n.Out.Type, shape, []int{x, c.ints(shape...)})
	case !high:
		return f(x, shape, Maximum, "", []int{x, number(n.Low)})
	case !low:
		return f(x, shape, Minimum, "", []int{x, number(n.High)})
	}
	y := f(x, shape, Maximum, ".low", []int{x, number(n.Low)})
	return f(x, shape, Minimum, "", []int{y, number(n.High)})
}

// geluParts writes GELU without its operator.
func (c *converter) geluParts(n *lower.Node, x int, shape []int) int {
	f := func(code Code, suffix string, in ...int) int {
		options := []Option{{0, none}}
		if code.options() == 0 {
			options = nil
		}
		return c.op(code, n.Out.Name+suffix, lower.Float32, shape, in, options...)
	}
	number := func(v float64) int { return c.floats([]int{1}, float32(v)) }
	if n.Mode == "tanh" {
		y := f(Mul, ".square", x, x)
		y = f(Mul, ".curve", y, number(0.044715))
		y = f(Add, ".slope", y, number(1))
		y = f(Mul, ".inner", y, x)
		y = f(Mul, ".scaled", y, number(math.Sqrt(2/math.Pi)))
		y = f(Tanh, ".tanh", y)
		y = f(Add, ".more", y, number(1))
		y = f(Mul, ".double", y, x)
		return f(Mul, "", y, number(0.5))
	}
	// max(x, 0) - |x|/2·erfc(|x|/√2), with the complement of the error function by
	// a polynomial of t = 1/(1+p|x|/√2) (Abramowitz and Stegun, 7.1.26).
	size := f(Abs, ".size", x)
	t := f(Mul, ".p", size, number(0.3275911/math.Sqrt2))
	t = f(Div, ".t", number(1), f(Add, ".q", t, number(1)))
	y := f(Mul, ".t5", t, number(1.061405429))
	for i, k := range []float64{-1.453152027, 1.421413741, -0.284496736, 0.254829592} {
		y = f(Add, fmt.Sprintf(".a%d", 4-i), y, number(k))
		y = f(Mul, fmt.Sprintf(".t%d", 4-i), y, t)
	}
	e := f(Mul, ".square", x, x)
	e = f(Exp, ".exp", f(Mul, ".exponent", e, number(-0.5)))
	y = f(Mul, ".erfc", y, e)
	y = f(Mul, ".tail", y, f(Mul, ".half", size, number(0.5)))
	return f(Sub, "", f(Relu, ".relu", x), y)
}

// norm writes LayerNorm and RMSNorm by means.
func (c *converter) norm(n *lower.Node) {
	x, name := c.get(n.In[0], plain), n.Out.Name
	shape, reduced := n.In[0].Shape, slices.Clone(n.In[0].Shape)
	var axes []int
	for i := n.Axis; i < len(shape); i++ {
		axes, reduced[i] = append(axes, i), 1
	}
	f := func(code Code, suffix string, shape []int, in ...int) int {
		options := []Option{{0, none}}
		switch {
		case code == Mean:
			options = []Option{{0, true}}
		case code.options() == 0:
			options = nil
		}
		return c.op(code, name+suffix, lower.Float32, shape, in, options...)
	}
	if n.Op == lower.LayerNorm {
		x = f(Sub, ".centered", shape, x, f(Mean, ".mean", reduced, x, c.ints(axes...)))
	}
	v := f(Mean, ".variance", reduced, f(Mul, ".square", shape, x, x), c.ints(axes...))
	v = f(Rsqrt, ".rsqrt", reduced, f(Add, ".more", reduced, v, c.floats([]int{1}, n.Epsilon)))
	last := ".unit"
	y := f(Mul, last, shape, x, v)
	y = f(Mul, ".gain", shape, y, c.get(n.In[1], plain))
	if len(n.In) > 2 {
		y = f(Add, "", shape, y, c.get(n.In[2], plain))
	}
	c.put(n.Out, plain, y)
}

// softmax writes Softmax, which covers the last dimension.
func (c *converter) softmax(n *lower.Node) error {
	r := len(n.Out.Shape)
	beta := Option{0, float32(1)}
	if n.Axis == r-1 {
		c.plain(n, Softmax, []int{c.get(n.In[0], plain)}, beta)
		return nil
	}
	perm := make([]int, r)
	for i := range perm {
		perm[i] = i
	}
	perm[n.Axis], perm[r-1] = r-1, n.Axis
	shape := permuted(n.Out.Shape, perm)
	x := c.op(Transpose, n.Out.Name+".axis", lower.Float32, shape, []int{c.get(n.In[0], plain), c.ints(perm...)})
	x = c.op(Softmax, n.Out.Name+".softmax", lower.Float32, shape, []int{x}, beta)
	c.plain(n, Transpose, []int{x, c.ints(perm...)})
	return nil
}

// matMul writes a product: with a constant matrix as a layer.
func (c *converter) matMul(n *lower.Node) error {
	a, b := n.In[0], n.In[1]
	if len(a.Shape) < 2 || len(b.Shape) < 2 {
		return fmt.Errorf("product of a vector, shapes %v and %v", a.Shape, b.Shape)
	}
	if !weighted(n) {
		c.plain(n, BatchMatMul, []int{c.get(a, plain), c.get(b, plain)}, Option{0, false}, Option{1, n.TransposeB}, Option{2, false})
		return nil
	}
	w, shape := b.Const.Floats, b.Shape
	if !n.TransposeB {
		w, shape = rotate(w, shape, []int{1, 0}), []int{shape[1], shape[0]}
	}
	weights, err := c.weights(b.Name, w, shape, 0, true)
	if err != nil {
		return err
	}
	in, out := []int{c.get(a, plain), weights, -1}, n.Out
	if add := c.bias[n]; add != nil {
		i := 0
		if add.In[0] == n.Out {
			i = 1
		}
		in[2], out = c.get(add.In[i], plain), add.Out
	}
	version := 5
	if c.m.Tensors[weights].Type == Int8 {
		version = 12
	}
	c.put(out, plain, c.versioned(FullyConnected, version, out.Name, Float32, out.Shape, in, Option{0, none}, Option{1, none}, Option{2, true}, Option{3, false}))
	return nil
}

// gather writes Gather. Indices count from the start.
func (c *converter) gather(n *lower.Node) error {
	data, indices := n.In[0], n.In[1]
	if indices.Const != nil {
		fixed := slices.Clone(indices.Const.Ints)
		for i, v := range fixed {
			if v < 0 {
				fixed[i] = v + int64(data.Shape[n.Axis])
			}
		}
		indices = &lower.Value{Name: indices.Name, Type: lower.Int32, Shape: indices.Shape, Const: &lower.Const{Ints: fixed}}
	}
	x := 0
	if data.Const != nil && data.Type == lower.Float32 && n.Axis == 0 && len(data.Shape) == 2 {
		var err error
		if x, err = c.weights(data.Name, data.Const.Floats, data.Shape, 0, false); err != nil {
			return err
		}
	} else {
		x = c.get(data, plain)
	}
	c.plain(n, Gather, []int{x, c.get(indices, plain)}, Option{0, int32(n.Axis)}, Option{1, int32(0)})
	return nil
}

// shaped writes the operators on shapes.
func (c *converter) shaped(n *lower.Node) error {
	in := func() int { return c.get(n.In[0], plain) }
	switch n.Op {
	case lower.Reshape:
		if p := c.at[n.In[0]]; p != nil && slices.Equal(n.In[0].Shape, n.Out.Shape) {
			copied := *p // the same tensor
			c.at[n.Out] = &copied
			return nil
		}
		c.plain(n, Reshape, []int{in(), c.ints(n.Out.Shape...)})
	case lower.Transpose:
		c.transpose(n)
	case lower.Concat:
		var all []int
		for _, v := range n.In {
			all = append(all, c.get(v, plain))
		}
		c.plain(n, Concatenation, all, Option{0, int32(n.Axis)}, Option{1, none})
	case lower.Slice:
		c.slice(n)
	case lower.Pad:
		return c.pad(n)
	case lower.Tile:
		var repeats []int
		for i, d := range n.Out.Shape {
			repeats = append(repeats, d/n.In[0].Shape[i])
		}
		c.plain(n, Tile, []int{in(), c.ints(repeats...)})
	case lower.Where:
		c.plain(n, Select, []int{in(), c.get(n.In[1], plain), c.get(n.In[2], plain)})
	case lower.Cast:
		if n.Out.Type == lower.Bool && n.In[0].Type != lower.Bool {
			zero := c.ints(0)
			if n.In[0].Type == lower.Float32 {
				zero = c.floats([]int{1}, 0)
			}
			c.plain(n, NotEqual, []int{in(), zero})
			break
		}
		c.plain(n, Reshape, []int{in(), c.ints(n.Out.Shape...)})
	default:
		return fmt.Errorf("unsupported operator")
	}
	return nil
}

// transpose writes a transposition. One between the two layouts costs nothing.
func (c *converter) transpose(n *lower.Node) {
	r := len(n.Perm)
	p := c.at[n.In[0]]
	switch {
	case r > 2 && slices.Equal(n.Perm, first(r)) && p != nil && p[plain] >= 0:
		c.put(n.Out, channelsLast, p[plain])
	case r > 2 && slices.Equal(n.Perm, last(r)) && p != nil && p[channelsLast] >= 0:
		c.put(n.Out, plain, p[channelsLast])
	default:
		c.plain(n, Transpose, []int{c.get(n.In[0], plain), c.ints(n.Perm...)})
	}
}

func (c *converter) slice(n *lower.Node) {
	mask := int32(0)
	ends := make([]int, len(n.Starts))
	for i, from := range n.Starts {
		ends[i] = from + n.Out.Shape[i]*n.Steps[i]
		if ends[i] < 0 {
			mask |= 1 << i
		}
	}
	x := c.get(n.In[0], plain)
	c.plain(n, StridedSlice, []int{x, c.ints(n.Starts...), c.ints(ends...), c.ints(n.Steps...)}, Option{0, int32(0)}, Option{1, mask})
}

func (c *converter) pad(n *lower.Node) error {
	for i := range n.Before {
		if n.Before[i] < 0 || n.After[i] < 0 {
			return fmt.Errorf("negative pads %v, %v", n.Before, n.After)
		}
	}
	x, pads := c.get(n.In[0], plain), c.pads(n.Before, n.After)
	switch {
	case n.Mode == "reflect":
		c.plain(n, Mirror, []int{x, pads}, Option{0, none})
	case n.Mode != "constant":
		return fmt.Errorf("unsupported mode %q", n.Mode)
	case n.Low == 0:
		c.plain(n, Pad, []int{x, pads})
	default:
		c.plain(n, PadV2, []int{x, pads, c.floats(nil, n.Low)})
	}
	return nil
}

// pads adds the pads of each dimension.
func (c *converter) pads(before, after []int) int {
	var all []int
	for i := range before {
		all = append(all, before[i], after[i])
	}
	t := c.ints(all...)
	c.m.Tensors[t].Shape = []int{len(before), 2}
	return t
}
