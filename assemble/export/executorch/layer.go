package executorch

import (
	"slices"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/onnx/lower"
)

// filter adds the weights of a node, whose first dimension are outputs, in the
// precision. Those of single channels stay as they are.
func (r *region) filter(n *lower.Node, data []float32, dims ...int) uint32 {
	v := xnnValue{dtype: xnnFloat32, dims: dims}
	switch c := r.c; {
	case !c.narrows(n) || depthwise(n):
		v.data = r.packed(export.Float32s(data))
	case c.precision == fp16:
		half, _ := export.Float16s(data) // export.Lowered refuses weights beyond their range by the cosine
		v.dtype, v.data = xnnFloat16, r.packed(half)
	default:
		codes, scales := export.Int8s(data, dims, 0)
		v.dtype, v.count = xnnPerOutput, len(scales)
		v.data, v.scales = r.packed(codes), r.packed(export.Float32s(scales))
	}
	return r.x.value(v)
}

// product adds a product: with constant weights as a layer.
func (r *region) product(n *lower.Node) {
	w, x := n.In[1], r.get(n.In[0])
	if w.Const == nil || len(w.Shape) != 2 {
		flags, y := uint32(0), r.get(w)
		if n.TransposeB {
			flags = xnnTransposeB
		}
		r.x.node(xnnBatchMatMul, x, y, r.result(n), flags)
		return
	}
	in, out := w.Shape[0], w.Shape[1]
	if n.TransposeB {
		in, out = out, in
	}
	f := r.filter(n, rowsOf(n), out, in)
	r.x.node(xnnFullyConnected, x, f, uint32(noValue), r.result(n), uint32(0))
}

// rowsOf returns the weights of a product as outputs × inputs.
func rowsOf(n *lower.Node) []float32 {
	data := n.In[1].Const.Floats
	if n.TransposeB {
		return data
	}
	in, out := n.In[1].Shape[0], n.In[1].Shape[1]
	rows := make([]float32, len(data))
	for i := range in {
		for j := range out {
			rows[j*in+i] = data[i*out+j]
		}
	}
	return rows
}

// flat returns numbers for rows and columns; an operation over one dimension has rows
// of height with.
func flat(list []int, with int) []int {
	return slices.Concat(slices.Repeat([]int{with}, 2-len(list)), list)
}

// bias adds the bias of a convolution.
func (r *region) bias(n *lower.Node) uint32 {
	if len(n.In) < 3 {
		return noValue
	}
	return r.x.value(xnnValue{dtype: xnnFloat32, dims: []int{n.In[2].Size()}, data: r.packed(export.Float32s(n.In[2].Const.Floats))})
}

// conv adds a convolution.
func (r *region) conv(n *lower.Node) {
	w, x := n.In[1], r.images(n.In[0])
	shape := slices.Concat(w.Shape[:2], flat(w.Shape[2:], 1))
	out := r.fresh(widened(n.Out.Shape)...)
	r.wide[n.Out] = out
	if pointwise(n) {
		r.layer(n, x, r.filter(n, w.Const.Floats, shape[0], shape[1]), out)
		return
	}
	if r.c.narrows(n) && !depthwise(n) {
		rows := permuted(w.Const.Floats, shape, []int{0, 2, 3, 1})
		x = r.patches(n, x, shape[2:])
		r.layer(n, x, r.filter(n, rows, shape[0], len(rows)/shape[0]), out)
		return
	}
	kind, order := byte(xnnConv), []int{0, 2, 3, 1}
	if depthwise(n) {
		kind, order = xnnDepthwise, []int{1, 2, 3, 0}
	}
	dims := make([]int, 4)
	for i, at := range order {
		dims[i] = shape[at]
	}
	f := r.filter(n, permuted(w.Const.Floats, shape, order), dims...)
	fields := append(windowOf(n, n.After, shape[2:]), uint32(shape[1]), uint32(shape[0]/n.Groups), uint32(n.Groups), uint32(0), uint32(0))
	r.x.node(kind, append(fields, x, f, r.bias(n), out, uint32(0))...)
}

// layer adds the product of a convolution and its bias, which XNNPACK multiplies by
// the scales where weights have them.
func (r *region) layer(n *lower.Node, x, filter, out uint32) {
	if r.x.values[filter].dtype != xnnPerOutput || len(n.In) < 3 {
		r.x.node(xnnFullyConnected, x, filter, r.bias(n), out, uint32(0))
		return
	}
	y := r.fresh(r.x.values[out].dims...)
	r.x.node(xnnFullyConnected, x, filter, uint32(noValue), y, uint32(0))
	r.x.node(xnnAdd, y, r.floats(n.In[2].Const.Floats, n.In[2].Size()), out, uint32(0))
}

// windowOf returns the fields of a window: pads, sizes, strides and dilations.
func windowOf(n *lower.Node, after, kernel []int) (out []any) {
	b, a, s, d := flat(n.Before, 0), flat(after, 0), flat(n.Strides, 1), flat(dilations(n, len(n.Before)), 1)
	for _, v := range []int{b[0], a[1], a[0], b[1], kernel[0], kernel[1], s[0], s[1], d[0], d[1]} {
		out = append(out, uint32(v))
	}
	return out
}

// transposedConv adds a transposed convolution. A missing end is an
// adjustment, a superfluous one a pad.
func (r *region) transposedConv(n *lower.Node) {
	w, x := n.In[1], r.images(n.In[0])
	shape, each := slices.Concat(w.Shape[:2], flat(w.Shape[2:], 1)), dilations(n, len(n.Before))
	after, more := make([]int, len(n.Before)), make([]int, len(n.Before))
	for i := range after {
		full := (n.In[0].Shape[2+i]-1)*n.Strides[i] + each[i]*(w.Shape[2+i]-1) + 1
		more[i] = max(0, n.Before[i]+n.Out.Shape[2+i]-full)
		after[i] = full + more[i] - n.Before[i] - n.Out.Shape[2+i]
	}
	f := r.filter(n, permuted(w.Const.Floats, shape, []int{1, 2, 3, 0}), shape[1], shape[2], shape[3], shape[0])
	out := r.fresh(widened(n.Out.Shape)...)
	r.wide[n.Out] = out
	fields := append(windowOf(n, after, shape[2:]), uint32(shape[0]), uint32(shape[1]), uint32(1), uint32(flat(more, 0)[0]), uint32(flat(more, 0)[1]))
	r.x.node(xnnConvTranspose, append(fields, x, f, r.bias(n), out, uint32(0))...)
}

func (r *region) pool(n *lower.Node) {
	x := r.images(n.In[0])
	out, kind := r.fresh(widened(n.Out.Shape)...), byte(xnnAvgPool)
	if n.Op == lower.MaxPool {
		kind = xnnMaxPool
	}
	r.wide[n.Out] = out
	r.x.node(kind, append(windowOf(n, n.After, flat(n.Kernel, 1)), x, out, uint32(0))...)
}

// average adds the mean over the last dimension, which stays, as a product.
func (r *region) average(x uint32) uint32 {
	dims := slices.Clone(r.x.values[x].dims)
	width := dims[len(dims)-1]
	dims[len(dims)-1] = 1
	out := r.fresh(dims...)
	ones := slices.Repeat([]float32{1 / float32(width)}, width)
	f := r.x.value(xnnValue{dtype: xnnFloat32, dims: []int{1, width}, data: r.packed(export.Float32s(ones))})
	r.x.node(xnnFullyConnected, x, f, uint32(noValue), out, uint32(0))
	return out
}

func (r *region) mean(n *lower.Node) {
	if len(n.Axes) == 1 {
		r.narrow[n.Out] = r.reshaped(r.average(r.get(n.In[0])), n.Out.Shape...)
		return
	}
	s, x := n.In[0].Shape, r.images(n.In[0])
	out := r.fresh(s[0], 1, 1, s[1])
	r.x.node(xnnGlobalAvgPool, x, out, uint32(xnnKeepDims))
	if n.Keep {
		r.wide[n.Out] = out
		return
	}
	r.narrow[n.Out] = r.reshaped(out, n.Out.Shape...)
}

// norm adds a normalization by its parts.
func (r *region) norm(n *lower.Node) {
	x, shape := r.get(n.In[0]), n.Out.Shape
	pair := func(kind byte, a, b uint32, dims []int) uint32 {
		out := r.fresh(dims...)
		r.x.node(kind, a, b, out, uint32(0))
		return out
	}
	single := func(kind byte, a uint32) uint32 {
		out := r.fresh(r.x.values[a].dims...)
		r.x.node(kind, a, out, uint32(0))
		return out
	}
	if n.Op == lower.LayerNorm {
		x = pair(xnnSubtract, x, r.average(x), shape)
	}
	v := r.average(single(xnnSquare, x))
	v = pair(xnnAdd, v, r.floats([]float32{n.Epsilon}, 1), r.x.values[v].dims)
	x = pair(xnnMultiply, x, single(xnnReciprocalRoot, v), shape)
	for i, kind := range []byte{xnnMultiply, xnnAdd} {
		if i+1 < len(n.In) {
			x = pair(kind, x, r.reshapedTo(n.In[i+1], shape[len(shape)-1]), shape)
		}
	}
	r.narrow[n.Out] = x
}

// reshapedTo returns a vector, such as a gain.
func (r *region) reshapedTo(v *lower.Value, width int) uint32 {
	if v.Const != nil {
		return r.floats(v.Const.Floats, width)
	}
	return r.reshaped(r.get(v), width)
}
