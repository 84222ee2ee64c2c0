package executorch

import (
	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/onnx/lower"
)

// The precisions of weights. Int4 has groups of 32 inputs for linear layers, and
// eight bits elsewhere.
const (
	fp32  = "fp32"
	fp16  = "fp16"
	int8s = "int8"
	int4s = "int4"
)

// weights returns the weights of a node as float32 in their own shape. Narrow ones
// are widened before each use, so that they are never wide together. A linear
// layer's weights in int4 are outputs × inputs.
func (c *converter) weights(n *lower.Node) (at int, swapped bool) {
	v, axis := export.Weights(n)
	if v == nil || v.Const == nil || c.precision == fp32 || len(v.Const.Floats) < export.MinWeights {
		return c.get(n.In[weightOf(n)]), false
	}
	if q, ok := export.Int4s(n); ok && c.precision == int4s {
		return c.nibbles(q, v.Shape[axis], v.Shape[1-axis]), true
	}
	if c.precision == fp16 {
		data, _ := export.Float16s(v.Const.Floats) // export.Lowered refuses weights beyond their range by the cosine
		return c.cast(c.constant(Float16, v.Shape, data), Float32, v.Shape), false
	}
	data, scales := export.Int8s(v.Const.Floats, v.Shape, axis)
	shape := make([]int, len(v.Shape))
	for i := range shape {
		shape[i] = 1
	}
	shape[axis] = len(scales)
	wide := c.cast(c.constant(Int8, v.Shape, data), Float32, v.Shape)
	return c.floats("aten::mul.out", v.Shape, wide, c.constant(Float32, shape, export.Float32s(scales))), false
}

// weightOf returns the operand of a node that holds its weights.
func weightOf(n *lower.Node) int {
	if n.Op == lower.Gather {
		return 0
	}
	return 1
}

// nibbles widens weights of four bits. The codes of a group lie in 16 bytes, the
// first half of the group in the low bits.
func (c *converter) nibbles(q export.Nibbles, out, in int) int {
	const half = export.Int4Group / 2
	groups := in / export.Int4Group
	packed := make([]byte, len(q.Data))
	code := func(i int) byte { return (q.Data[i/2]>>(4*uint(i%2)) ^ 8) & 15 } // 0 to 15
	for g := range out * groups {
		for i := range half {
			packed[g*half+i] = code(g*export.Int4Group+i) | code(g*export.Int4Group+half+i)<<4
		}
	}
	shape, full := []int{out, groups, half}, []int{out, groups, export.Int4Group}
	data := c.constant(Uint8, shape, packed)
	low := c.call("aten::bitwise_and.Scalar_out", Uint8, shape, data, c.count(15))
	high := c.call("aten::bitwise_right_shift.Tensor_Scalar_out", Uint8, shape, data, c.count(4))
	codes := c.call("aten::cat.out", Uint8, full, c.m.add(Values{low, high}), c.count(2))
	wide := c.cast(codes, Float32, full)
	wide = c.floats("aten::sub.Scalar_out", full, wide, c.number(8), c.count(1))
	wide = c.floats("aten::mul.out", full, wide, c.constant(Float32, []int{out, groups, 1}, export.Float32s(q.Scales)))
	return c.alias(wide, []int{out, in})
}
