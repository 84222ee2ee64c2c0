package executorch

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/onnx/lower"
)

// unary are the operators of one operand.
var unary = map[lower.Op]string{
	lower.Abs: "abs", lower.Neg: "neg", lower.Exp: "exp", lower.Log: "log", lower.Sqrt: "sqrt", lower.Erf: "erf", lower.Sin: "sin", lower.Cos: "cos",
	lower.Floor: "floor", lower.Ceil: "ceil", lower.Round: "round", lower.Reciprocal: "reciprocal", lower.Relu: "relu", lower.Sigmoid: "sigmoid",
	lower.Tanh: "tanh", lower.Not: "logical_not",
}

// pairs are those of two operands.
var pairs = map[lower.Op]string{
	lower.Mul: "mul.out", lower.Div: "div.out", lower.Pow: "pow.Tensor_Tensor_out", lower.Min: "minimum.out", lower.Max: "maximum.out",
	lower.Equal: "eq.Tensor_out", lower.Less: "lt.Tensor_out", lower.Greater: "gt.Tensor_out", lower.And: "logical_and.out", lower.Or: "logical_or.out",
}

// node writes a node.
func (c *converter) node(n *lower.Node) error {
	at, err := c.result(n)
	if err == nil {
		c.at[n.Out] = at
	}
	return err
}

// result writes a node and returns its result.
func (c *converter) result(n *lower.Node) (int, error) {
	t, shape := elements[n.Out.Type], n.Out.Shape
	if name, ok := unary[n.Op]; ok {
		return c.call("aten::"+name+".out", t, shape, c.get(n.In[0])), nil
	}
	switch n.Op {
	case lower.Add, lower.Sub:
		name := map[lower.Op]string{lower.Add: "aten::add.out", lower.Sub: "aten::sub.out"}[n.Op]
		return c.call(name, t, shape, c.get(n.In[0]), c.get(n.In[1]), c.count(1)), nil
	case lower.Div:
		if t != Float32 {
			return c.call("aten::div.out_mode", t, shape, c.get(n.In[0]), c.get(n.In[1]), c.scalar("trunc")), nil
		}
	case lower.Where:
		return c.call("aten::where.self_out", t, shape, c.get(n.In[0]), c.get(n.In[1]), c.get(n.In[2])), nil
	case lower.Conv:
		return c.conv(n)
	case lower.ConvTranspose:
		return c.transposedConv(n)
	case lower.MaxPool, lower.AvgPool:
		return c.pool(n)
	case lower.MatMul:
		return c.matMul(n)
	case lower.Softmax:
		return c.floats("aten::_softmax.out", shape, c.get(n.In[0]), c.count(n.Axis), c.flag(false)), nil
	case lower.LayerNorm:
		return c.layerNorm(n)
	case lower.RMSNorm:
		return c.rmsNorm(n), nil
	case lower.ReduceMean, lower.ReduceSum, lower.ReduceMax, lower.ReduceMin:
		return c.reduce(n)
	case lower.Resize:
		return c.resize(n)
	}
	if name, ok := pairs[n.Op]; ok {
		return c.call("aten::"+name, t, shape, c.get(n.In[0]), c.get(n.In[1])), nil
	}
	if at, ok := c.activation(n); ok {
		return at, nil
	}
	return c.shaped(n)
}

// activation writes functions with parameters.
func (c *converter) activation(n *lower.Node) (int, bool) {
	shape := n.Out.Shape
	scaled := func(x int, by, plus float32) int {
		x = c.floats("aten::mul.Scalar_out", shape, x, c.number(float64(by)))
		return c.floats("aten::add.Scalar_out", shape, x, c.number(float64(plus)), c.count(1))
	}
	clamped := func(x int, low, high float32) int {
		return c.floats("aten::clamp.out", shape, x, c.bound(low), c.bound(high))
	}
	switch n.Op {
	case lower.Gelu:
		return c.floats("aten::gelu.out", shape, c.get(n.In[0]), c.scalar(n.Mode)), true
	case lower.LeakyRelu:
		return c.floats("aten::leaky_relu.out", shape, c.get(n.In[0]), c.number(float64(n.Alpha))), true
	case lower.Elu:
		return c.floats("aten::elu.out", shape, c.get(n.In[0]), c.number(float64(n.Alpha)), c.number(1), c.number(1)), true
	case lower.Clip:
		if n.Out.Type != lower.Float32 {
			return 0, false
		}
		return clamped(c.get(n.In[0]), n.Low, n.High), true
	case lower.HardSigmoid:
		return clamped(scaled(c.get(n.In[0]), n.Alpha, n.Beta), 0, 1), true
	case lower.HardSwish:
		gate := clamped(scaled(c.get(n.In[0]), 1.0/6, 0.5), 0, 1)
		return c.floats("aten::mul.out", shape, c.get(n.In[0]), gate), true
	case lower.Softplus: // max(x, 0) + log(1 + exp(-|x|))
		x := c.get(n.In[0])
		small := c.floats("aten::neg.out", shape, c.floats("aten::abs.out", shape, x))
		small = c.floats("aten::log1p.out", shape, c.floats("aten::exp.out", shape, small))
		return c.floats("aten::add.out", shape, c.floats("aten::relu.out", shape, x), small, c.count(1)), true
	case lower.Cast:
		if n.In[0].Type == n.Out.Type {
			return c.get(n.In[0]), true
		}
		return c.cast(c.get(n.In[0]), elements[n.Out.Type], shape), true
	}
	return 0, false
}

// bound returns a limit of clamp, none for an infinite one.
func (c *converter) bound(v float32) int {
	if math.IsInf(float64(v), 0) {
		return c.none()
	}
	return c.number(float64(v))
}

// matMul writes a product: with a constant matrix as a layer, otherwise as products
// of matrices in a batch.
func (c *converter) matMul(n *lower.Node) (int, error) {
	a, b := n.In[0], n.In[1]
	if len(a.Shape) < 2 || len(b.Shape) < 2 {
		return 0, fmt.Errorf("product of a vector, shapes %v and %v", a.Shape, b.Shape)
	}
	if b.Const != nil && len(b.Shape) == 2 {
		w, swapped := c.weights(n)
		if !n.TransposeB && !swapped {
			w = c.floats("aten::permute_copy.out", []int{b.Shape[1], b.Shape[0]}, w, c.counts(1, 0))
		}
		return c.floats("aten::linear.out", n.Out.Shape, c.get(a), w, c.none()), nil
	}
	batch := n.Out.Shape[:len(n.Out.Shape)-2]
	x, y := c.batched(c.get(a), a.Shape, batch), c.batched(c.get(b), b.Shape, batch)
	if n.TransposeB {
		shape := c.shape(y)
		y = c.floats("aten::permute_copy.out", []int{shape[0], shape[2], shape[1]}, y, c.counts(0, 2, 1))
	}
	m, k := n.Out.Shape[len(n.Out.Shape)-2], n.Out.Shape[len(n.Out.Shape)-1]
	out := c.floats("aten::bmm.out", []int{product(batch), m, k}, x, y)
	return c.alias(out, n.Out.Shape), nil
}

func (c *converter) shape(at int) []int { return c.m.Values[at].(*Tensor).Shape }

// batched returns a stack of matrices as a tensor of three dimensions, repeated for
// the batch where the operands differ.
func (c *converter) batched(at int, shape, batch []int) int {
	own, rows := shape[:len(shape)-2], shape[len(shape)-2:]
	if full := slices.Concat(batch, rows); product(own) != product(batch) {
		at = c.alias(at, slices.Concat(slices.Repeat([]int{1}, len(full)-len(shape)), shape))
		at = c.floats("aten::expand_copy.out", full, at, c.counts(full...), c.flag(false))
	}
	return c.alias(at, slices.Concat([]int{product(batch)}, rows))
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func (c *converter) layerNorm(n *lower.Node) (int, error) {
	shape := n.In[0].Shape[n.Axis:]
	args := []int{c.get(n.In[0]), c.counts(shape...)}
	for i := 1; i < 3; i++ {
		if i >= len(n.In) {
			args = append(args, c.none())
			continue
		}
		if v := n.In[i]; v.Size() != product(shape) {
			return 0, fmt.Errorf("gain or bias of shape %v, want %v", v.Shape, shape)
		}
		args = append(args, c.alias(c.get(n.In[i]), shape))
	}
	reduced := slices.Clone(n.Out.Shape)
	for i := n.Axis; i < len(reduced); i++ {
		reduced[i] = 1
	}
	more := []*Tensor{{Type: Float32, Shape: reduced}, {Type: Float32, Shape: reduced}}
	return c.calls("aten::native_layer_norm.out", Float32, n.Out.Shape, more, append(args, c.number(float64(n.Epsilon)))...), nil
}

// rmsNorm writes RMSNorm by its parts.
func (c *converter) rmsNorm(n *lower.Node) int {
	x, shape := c.get(n.In[0]), n.Out.Shape
	reduced := slices.Clone(shape)
	reduced[n.Axis] = 1
	v := c.floats("aten::mul.out", shape, x, x)
	v = c.floats("aten::mean.out", reduced, v, c.counts(n.Axis), c.flag(true), c.none())
	v = c.floats("aten::add.Scalar_out", reduced, v, c.number(float64(n.Epsilon)), c.count(1))
	v = c.floats("aten::rsqrt.out", reduced, v)
	v = c.floats("aten::mul.out", shape, x, v)
	return c.floats("aten::mul.out", shape, v, c.get(n.In[1]))
}

func (c *converter) reduce(n *lower.Node) (int, error) {
	x, axes, keep := c.get(n.In[0]), c.counts(n.Axes...), c.flag(n.Keep)
	t, shape := elements[n.Out.Type], n.Out.Shape
	switch n.Op {
	case lower.ReduceMean:
		if t != Float32 {
			return 0, fmt.Errorf("mean of integers")
		}
		return c.floats("aten::mean.out", shape, x, axes, keep, c.none()), nil
	case lower.ReduceSum:
		return c.call("aten::sum.IntList_out", t, shape, x, axes, keep, c.none()), nil
	case lower.ReduceMax:
		return c.call("aten::amax.out", t, shape, x, axes, keep), nil
	}
	return c.call("aten::amin.out", t, shape, x, axes, keep), nil
}

// shaped writes the operators on shapes.
func (c *converter) shaped(n *lower.Node) (int, error) {
	t, shape := elements[n.Out.Type], n.Out.Shape
	switch n.Op {
	case lower.Reshape:
		return c.alias(c.get(n.In[0]), shape), nil
	case lower.Transpose:
		return c.call("aten::permute_copy.out", t, shape, c.get(n.In[0]), c.counts(n.Perm...)), nil
	case lower.Concat:
		var list Values
		for _, v := range n.In {
			list = append(list, c.get(v))
		}
		return c.call("aten::cat.out", t, shape, c.m.add(list), c.count(n.Axis)), nil
	case lower.Slice:
		return c.slice(n), nil
	case lower.Gather:
		return c.gather(n), nil
	case lower.Pad:
		return c.pad(n)
	case lower.Tile:
		reps := make([]int, len(shape))
		for i, d := range n.In[0].Shape {
			reps[i] = shape[i] / d
		}
		return c.call("aten::repeat.out", t, shape, c.get(n.In[0]), c.counts(reps...)), nil
	}
	return 0, fmt.Errorf("unsupported operator")
}

// slice writes a step for each dimension that is cut; a dimension with a negative
// step is cut and then reversed.
func (c *converter) slice(n *lower.Node) int {
	at, shape, t := c.get(n.In[0]), slices.Clone(n.In[0].Shape), elements[n.Out.Type]
	var reversed []int
	for i, from := range n.Starts {
		step, length := n.Steps[i], n.Out.Shape[i]
		if step < 0 {
			reversed = append(reversed, i)
			from, step = from+(length-1)*step, -step
		}
		if from == 0 && step == 1 && length == shape[i] {
			continue
		}
		shape = slices.Clone(shape)
		shape[i] = length
		at = c.call("aten::slice_copy.Tensor_out", t, shape, at, c.count(i), c.count(from), c.count(from+(length-1)*step+1), c.count(step))
	}
	if len(reversed) > 0 {
		at = c.call("aten::flip.out", t, shape, at, c.counts(reversed...))
	}
	return at
}

// gather writes Gather as a selection of a list of indices. The runtime refuses
// indices that are out of range.
func (c *converter) gather(n *lower.Node) int {
	indices := n.In[1]
	if indices.Const != nil {
		fixed := slices.Clone(indices.Const.Ints)
		for i, v := range fixed {
			if v < 0 {
				fixed[i] = v + int64(n.In[0].Shape[n.Axis])
			}
		}
		indices = &lower.Value{Name: indices.Name, Type: lower.Int64, Shape: indices.Shape, Const: &lower.Const{Ints: fixed}}
	}
	data, _ := c.weights(n)
	list := c.alias(c.get(indices), []int{indices.Size()})
	shape := slices.Clone(n.In[0].Shape)
	shape[n.Axis] = indices.Size()
	return c.alias(c.call("aten::index_select.out", elements[n.Out.Type], shape, data, c.count(n.Axis), list), n.Out.Shape)
}
