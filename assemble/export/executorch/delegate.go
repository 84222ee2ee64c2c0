package executorch

import (
	"math"
	"slices"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/onnx/lower"
)

// xnnUnary are the operators of one operand without parameters.
var xnnUnary = map[lower.Op]byte{
	lower.Abs: xnnAbs, lower.Neg: xnnNegate, lower.Exp: xnnExp, lower.Log: xnnLog, lower.Sqrt: xnnSquareRoot, lower.Sin: xnnSin, lower.Cos: xnnCos,
	lower.Floor: xnnFloor, lower.Ceil: xnnCeiling, lower.Sigmoid: xnnSigmoid, lower.Tanh: xnnTanh, lower.HardSwish: xnnHardSwish, lower.Gelu: xnnGelu,
}

// xnnPairs are those of two operands.
var xnnPairs = map[lower.Op]byte{lower.Add: xnnAdd, lower.Sub: xnnSubtract, lower.Mul: xnnMultiply, lower.Div: xnnDivide, lower.Min: xnnMinimum, lower.Max: xnnMaximum}

// maxXNNRank is the largest number of dimensions in XNNPACK.
const maxXNNRank = 6

// takes reports whether XNNPACK computes a node with its weights in the precision.
func (c *converter) takes(n *lower.Node) bool {
	for _, v := range append(slices.Clone(n.In), n.Out) {
		if v.Type != lower.Float32 || len(v.Shape) > maxXNNRank || slices.Contains(v.Shape, 0) {
			return false
		}
	}
	rank := len(n.Out.Shape)
	if rank == 0 || len(n.In[0].Shape) == 0 && n.In[0].Const == nil {
		return false
	}
	last := len(n.In[0].Shape) - 1
	switch n.Op {
	case lower.Gelu:
		return n.Mode == "none"
	case lower.Relu, lower.Clip, lower.LeakyRelu, lower.Elu, lower.HardSigmoid, lower.Reciprocal, lower.Reshape, lower.Transpose:
		return true
	case lower.Softmax, lower.RMSNorm:
		return n.Axis == last
	case lower.LayerNorm:
		return n.Axis == last && !slices.ContainsFunc(n.In[1:], func(v *lower.Value) bool { return v.Size() != n.In[0].Shape[last] })
	case lower.ReduceMean:
		return slices.Equal(n.Axes, []int{last}) || last == 3 && slices.Equal(n.Axes, []int{2, 3})
	case lower.Slice:
		return !slices.ContainsFunc(n.Steps, func(s int) bool { return s != 1 })
	case lower.Concat:
		return len(n.In) >= 2
	case lower.Pad:
		return n.Mode == "constant" && slices.Min(slices.Concat(n.Before, n.After)) >= 0
	case lower.MatMul:
		return c.takesProduct(n)
	case lower.Conv, lower.ConvTranspose:
		return c.takesConv(n)
	case lower.MaxPool, lower.AvgPool:
		return takesPool(n)
	case lower.Resize:
		corner := n.Corner
		return n.Mode == "linear" && last == 3 && (corner == "half_pixel" || corner == "align_corners") && slices.Equal(n.In[0].Shape[:2], n.Out.Shape[:2])
	}
	return xnnUnary[n.Op] != 0 || xnnPairs[n.Op] != 0
}

// narrows reports whether the weights of a node are narrower than 32 bits.
func (c *converter) narrows(n *lower.Node) bool {
	v, _ := export.Weights(n)
	return c.precision != fp32 && v != nil && v.Const != nil && len(v.Const.Floats) >= export.MinWeights
}

// takesProduct: scales of groups may be negative, which XNNPACK refuses.
func (c *converter) takesProduct(n *lower.Node) bool {
	a, b := n.In[0].Shape, n.In[1].Shape
	if n.In[1].Const != nil && len(b) == 2 {
		_, grouped := export.Int4s(n)
		return len(a) >= 2 && !(c.precision == int4s && grouped)
	}
	return len(a) >= 3 && len(a) == len(b) && slices.Equal(a[:len(a)-2], b[:len(b)-2])
}

// takesConv: XNNPACK has narrow weights for products, which convolutions of all
// channels become.
func (c *converter) takesConv(n *lower.Node) bool {
	rank, w := len(n.In[0].Shape)-2, n.In[1]
	if rank < 1 || rank > 2 || w.Const == nil || len(n.In) > 2 && n.In[2].Const == nil || slices.Min(slices.Concat(n.Before, n.After)) < 0 {
		return false
	}
	if n.Op == lower.ConvTranspose {
		return n.Groups == 1 && !c.narrows(n)
	}
	return !c.narrows(n) || n.Groups == 1 || depthwise(n)
}

// depthwise reports whether each output of a convolution reads one of several channels.
func depthwise(n *lower.Node) bool {
	return n.Op == lower.Conv && n.In[1].Shape[1] == 1 && n.Groups > 1
}

// pointwise reports whether a convolution is a product of each position alone.
func pointwise(n *lower.Node) bool {
	ones := func(list []int) bool { return !slices.ContainsFunc(list, func(v int) bool { return v != 1 }) }
	return n.Op == lower.Conv && n.Groups == 1 && ones(n.In[1].Shape[2:]) && ones(n.Strides) && slices.Max(slices.Concat(n.Before, n.After)) == 0
}

func takesPool(n *lower.Node) bool {
	rank := len(n.Out.Shape) - 2
	if rank < 1 || rank > 2 || slices.Min(slices.Concat(n.Before, n.After)) < 0 || len(n.Kernel) != rank || product(n.Kernel) < 2 {
		return false
	}
	if n.Op == lower.MaxPool {
		return true
	}
	return slices.Max(slices.Concat(n.Before, n.After)) == 0 && !slices.ContainsFunc(dilations(n, rank), func(d int) bool { return d != 1 })
}

// node adds a node that XNNPACK takes.
func (r *region) node(n *lower.Node) {
	switch n.Op {
	case lower.MatMul:
		r.product(n)
	case lower.Conv:
		r.conv(n)
	case lower.ConvTranspose:
		r.transposedConv(n)
	case lower.MaxPool, lower.AvgPool:
		r.pool(n)
	case lower.LayerNorm, lower.RMSNorm:
		r.norm(n)
	case lower.ReduceMean:
		r.mean(n)
	case lower.Softmax:
		in := r.get(n.In[0])
		r.x.node(xnnSoftmax, in, r.result(n), uint32(0))
	case lower.Resize:
		flags := uint32(0)
		if n.Corner == "align_corners" {
			flags = xnnAligned
		}
		in := r.images(n.In[0])
		r.wide[n.Out] = r.fresh(widened(n.Out.Shape)...)
		r.x.node(xnnResizeBilinear, uint32(n.Out.Shape[2]), uint32(n.Out.Shape[3]), in, r.wide[n.Out], flags)
	case lower.Reshape, lower.Transpose, lower.Slice, lower.Concat, lower.Pad:
		r.moved(n)
	default:
		r.elements(n)
	}
}

// elements adds an operation on single elements.
func (r *region) elements(n *lower.Node) {
	in, out := r.layout(n)
	dims := r.x.values[out].dims
	switch n.Op {
	case lower.Relu:
		r.x.clamp(in[0], out, 0, float32(math.Inf(1)))
	case lower.Clip:
		r.x.clamp(in[0], out, n.Low, n.High)
	case lower.LeakyRelu:
		r.x.node(xnnLeakyRelu, n.Alpha, in[0], out, uint32(0))
	case lower.Elu:
		r.x.node(xnnElu, n.Alpha, in[0], out, uint32(0))
	case lower.Reciprocal:
		r.x.node(xnnDivide, r.floats([]float32{1}, 1), in[0], out, uint32(0))
	case lower.HardSigmoid:
		scaled, sum := r.fresh(dims...), r.fresh(dims...)
		r.x.node(xnnMultiply, in[0], r.floats([]float32{n.Alpha}, 1), scaled, uint32(0))
		r.x.node(xnnAdd, scaled, r.floats([]float32{n.Beta}, 1), sum, uint32(0))
		r.x.clamp(sum, out, 0, 1)
	default:
		if kind, ok := xnnUnary[n.Op]; ok {
			r.x.node(kind, in[0], out, uint32(0))
			return
		}
		r.x.node(xnnPairs[n.Op], in[0], in[1], out, uint32(0))
	}
}

// moved adds an operation that moves data.
func (r *region) moved(n *lower.Node) {
	var in []uint32
	for _, v := range n.In {
		in = append(in, r.get(v))
	}
	if n.Op == lower.Concat {
		r.narrow[n.Out] = r.joined(in, n.Axis)
		return
	}
	out, rank := r.result(n), uint32(len(n.Out.Shape))
	switch n.Op {
	case lower.Reshape:
		r.x.node(xnnReshape, rank, n.Out.Shape, in[0], out, uint32(0))
	case lower.Transpose:
		r.x.node(xnnTranspose, rank, n.Perm, in[0], out, uint32(0))
	case lower.Slice:
		r.x.node(xnnSlice, rank, n.Starts, n.Out.Shape, in[0], out, uint32(0))
	case lower.Pad:
		r.x.node(xnnPad, n.Before, n.After, n.Low, in[0], out, uint32(0))
	}
}
