package image

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/arith"
	"mm-abi.org/mm/onnx/engine/conv"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// The kernels in this file work on blocked images (package onnx/engine/conv):
// arrays [batch][block][spatial…][lane] that represent
// [batch][channel][spatial…]. The planner of onnx/engine selects them for
// consecutive convolutions. Elementwise operators accept such arrays unchanged.

// layout is the result of the attributes of a convolution or a pool for images
// of one shape.
type layout struct {
	in   []int
	all  window
	win  conv.Window
	out  []int
	pool *conv.Pool
}

// flat returns the window over rows and columns.
func (w *window) flat() conv.Window {
	two := func(v [3]int) [2]int { return [2]int{v[1], v[2]} }
	return conv.Window{In: two(w.in), Out: two(w.out), Kernel: two(w.kernel), Stride: two(w.stride), Dilation: two(w.dilation), Before: two(w.before)}
}

// laid returns the window of a filter, or of a pool if kernel is nil, over an
// image. It is cached for images of one shape.
func laid(c *kernel.Call, x *kernel.Array, plain bool, channels int, kernel []int) (*layout, error) {
	if l, ok := (*c.Cache).(*layout); ok && slices.Equal(l.in, x.Shape) {
		return l, nil
	}
	size, err := []int(nil), error(nil)
	if plain {
		if x.Rank() < 3 || x.Rank() > 4 || x.Type != onnx.FLOAT || x.Shape[1] != channels {
			return nil, fmt.Errorf("%s %v is not an image of %d channels", x.Type, x.Shape, channels)
		}
		size = x.Shape[2:]
	} else if size, err = conv.Spatial(x); err != nil {
		return nil, err
	}
	w, err := windowOf(c, size, kernel)
	if err != nil {
		return nil, err
	}
	if err := slide(c, &w); err != nil {
		return nil, err
	}
	if err := w.sound(max(channels, 1)); err != nil {
		return nil, err
	}
	l := &layout{in: slices.Clone(x.Shape), all: w, win: w.flat(), out: slices.Clone(w.outs())}
	*c.Cache = l
	return l, nil
}

// Convolution returns the kernel of Conv with packed weights over images of a
// rank. A second input, if any, is added to the sums.
func Convolution(f *conv.Filter, rank int) kernel.Func {
	s := f.Spec()
	return func(c *kernel.Call) error {
		x := c.In[0]
		l, err := laid(c, x, s.Plain, s.In, s.Kernel[4-rank:])
		if err != nil {
			return err
		}
		if !s.Plain && x.Shape[1] != conv.Blocks(s.In, conv.Kernels().Lanes()) {
			return fmt.Errorf("%v is not an image of %d channels", x.Shape, s.In)
		}
		out, err := c.Result(0, onnx.FLOAT, conv.Shape(x.Shape[0], s.Out, l.out)...)
		if err != nil || out.Len() == 0 {
			return err
		}
		after := conv.Nothing()
		if c.After != nil {
			after = conv.After{Low: c.After.Low, High: c.After.High, Shape: c.After.Shape}
		}
		var add *kernel.Array
		if len(c.In) > 1 {
			add = c.In[1]
			if !slices.Equal(add.Shape, out.Shape) { // broadcast
				after, add = conv.Nothing(), nil
			} else {
				after.Add = kernel.Elements[float32](add)
			}
		}
		work, done := conv.NewWork(c)
		defer done()
		if err := f.Do(work, l.win, x.Shape[0], kernel.Elements[float32](out), kernel.Elements[float32](x), after); err != nil {
			return err
		}
		if len(c.In) > 1 && add == nil {
			return addAfter(c)
		}
		return nil
	}
}

// addAfter adds the second input, of a different shape, to the output and
// applies the fused activation.
func addAfter(c *kernel.Call) error {
	sums := c.Out[0]
	out, err := arith.Zip(c, sums, c.In[1], arith.Arithmetic[float32]("Add", false))
	if err != nil {
		return err
	}
	c.Arena.Release(sums)
	c.Out[0] = out
	o := kernel.Elements[float32](out)
	c.Each(len(o), 1, func(_, lo, hi int) { after(c, o[lo:hi], 0) })
	return nil
}

// BlockedPool computes MaxPool and AveragePool.
func BlockedPool(c *kernel.Call) error {
	x := c.In[0]
	l, err := laid(c, x, false, 1, nil)
	if err != nil {
		return err
	}
	out, err := c.Result(0, onnx.FLOAT, append(append(slices.Clone(x.Shape[:2]), l.out...), x.Shape[x.Rank()-1])...)
	if err != nil || out.Len() == 0 {
		return err
	}
	if l.pool == nil {
		var count func(dim, o int) int
		if c.Int("count_include_pad", 0) != 0 {
			count = func(dim, o int) int { return l.all.coveredIn(dim+1, o) }
		}
		l.pool = conv.NewPool(conv.Kernels(), l.win, c.Node.Op == "MaxPool", count)
	}
	work, done := conv.NewWork(c)
	defer done()
	l.pool.Do(work, x.Shape[0]*x.Shape[1], kernel.Elements[float32](out), kernel.Elements[float32](x))
	return nil
}

// BlockedMean computes GlobalAveragePool.
func BlockedMean(c *kernel.Call) error {
	x := c.In[0]
	size, err := conv.Spatial(x)
	if err != nil {
		return err
	}
	shape := slices.Clone(x.Shape)
	for i := range size {
		shape[2+i] = 1
	}
	out, err := c.Result(0, onnx.FLOAT, shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	n, lanes := kernel.Product(size), conv.Kernels().Lanes()
	xs, o := kernel.Elements[float32](x), kernel.Elements[float32](out)
	c.Each(len(o)/lanes, n*lanes, func(_, lo, hi int) {
		for b := lo; b < hi; b++ {
			sum := o[b*lanes : (b+1)*lanes]
			conv.Kernels().SumLanes(sum, xs[b*n*lanes:(b+1)*n*lanes])
			tensor.Scale(sum, 1/float32(n))
		}
	})
	return nil
}

// Transposition returns the kernel of ConvTranspose with packed weights and
// adjacent windows, over images of a rank. Its results are blocked unless
// t.Plain.
func Transposition(t *conv.Transposed, rank int) kernel.Func {
	in, channels := t.Channels()
	return func(c *kernel.Call) error {
		x, k := c.In[0], t.Kernel()
		size, err := conv.Spatial(x)
		if err != nil {
			return err
		}
		if len(size) != rank-2 || x.Shape[1] != conv.Blocks(in, conv.Kernels().Lanes()) {
			return fmt.Errorf("%v is not an image of %d channels", x.Shape, in)
		}
		two := [2]int{1, size[len(size)-1]}
		if len(size) == 2 {
			two[0] = size[0]
		}
		to := slices.Clone(size)
		for i := range to {
			to[i] *= k[4-rank+i]
		}
		shape := append([]int{x.Shape[0], channels}, to...)
		if !t.Plain() {
			shape = conv.Shape(x.Shape[0], channels, to)
		}
		out, err := c.Result(0, onnx.FLOAT, shape...)
		if err != nil || out.Len() == 0 {
			return err
		}
		after := conv.Nothing()
		if c.After != nil {
			after = conv.After{Low: c.After.Low, High: c.After.High, Shape: c.After.Shape}
		}
		work, done := conv.NewWork(c)
		defer done()
		return t.Do(work, two, x.Shape[0], kernel.Elements[float32](out), kernel.Elements[float32](x), after)
	}
}
