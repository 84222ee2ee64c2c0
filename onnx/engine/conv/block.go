package conv

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// Kernels returns the kernels that the blocked layout is made for.
func Kernels() tensor.ConvKernels { return tensor.BestConv() }

// Spatial returns the spatial dimensions of a blocked image.
func Spatial(x *kernel.Array) ([]int, error) {
	n := x.Rank()
	if n < 4 || n > 5 || x.Type != onnx.FLOAT || x.Shape[n-1] != Kernels().Lanes() {
		return nil, fmt.Errorf("%s %v is not a blocked image", x.Type, x.Shape)
	}
	return x.Shape[2 : n-1], nil
}

// Shape returns the shape of a blocked image.
func Shape(batch, channels int, spatial []int) []int {
	lanes := Kernels().Lanes()
	return append(append([]int{batch, Blocks(channels, lanes)}, spatial...), lanes)
}

// NewWork returns the resources of a convolution. done releases their memory.
func NewWork(c *kernel.Call) (w *Work, done func()) {
	var mine []*kernel.Array
	w = &Work{For: c.Loop, Rows: c.Rows, Room: func(n int) ([]float32, error) {
		a, err := c.Arena.New(onnx.FLOAT, n)
		if err != nil {
			return nil, err
		}
		mine = append(mine, a)
		return kernel.Elements[float32](a), nil
	}}
	return w, func() {
		for _, a := range mine {
			c.Arena.Release(a)
		}
	}
}

// Lay returns the kernel that converts an image of the given channels to the
// blocked layout.
func Lay(channels int) kernel.Func {
	return func(c *kernel.Call) error {
		x := c.In[0]
		if x.Rank() < 3 || x.Rank() > 4 || x.Type != onnx.FLOAT || x.Shape[1] != channels {
			return fmt.Errorf("%s %v is not an image of %d channels", x.Type, x.Shape, channels)
		}
		out, err := c.Result(0, onnx.FLOAT, Shape(x.Shape[0], channels, x.Shape[2:])...)
		if err != nil || out.Len() == 0 {
			return err
		}
		reorder(c, channels, kernel.Product(x.Shape[2:]), x.Shape[0], func(at, image, ch, n, pixels, lanes int) {
			tensor.Interleave(kernel.Elements[float32](out)[at:], lanes, kernel.Elements[float32](x)[image:], pixels, ch, n)
		})
		return nil
	}
}

// ToPlain returns the kernel of the inverse conversion.
func ToPlain(channels int) kernel.Func {
	return func(c *kernel.Call) error {
		x := c.In[0]
		size, err := Spatial(x)
		if err != nil {
			return err
		}
		if x.Shape[1] != Blocks(channels, Kernels().Lanes()) {
			return fmt.Errorf("%v is not an image of %d channels", x.Shape, channels)
		}
		out, err := c.Result(0, onnx.FLOAT, append([]int{x.Shape[0], channels}, size...)...)
		if err != nil || out.Len() == 0 {
			return err
		}
		reorder(c, channels, kernel.Product(size), x.Shape[0], func(at, image, ch, n, pixels, lanes int) {
			tensor.Deinterleave(kernel.Elements[float32](out)[image:], pixels, kernel.Elements[float32](x)[at:], lanes, ch, n)
		})
		return nil
	}
}

// reorder splits the pixels of all blocks into pieces and calls f with the
// positions of each in blocks and in planes, its channels and its pixels.
func reorder(c *kernel.Call, channels, pixels, batch int, f func(at, image, ch, n, all, lanes int)) {
	const piece = 1 << 10
	lanes := Kernels().Lanes()
	per, pieces := Blocks(channels, lanes), (pixels+piece-1)/piece
	c.Each(batch*per*pieces, min(piece, pixels)*lanes, func(_, lo, hi int) {
		for t := lo; t < hi; t++ {
			n, b, p := t/pieces/per, t/pieces%per, t%pieces*piece
			f(((n*per+b)*pixels+p)*lanes, (n*channels+b*lanes)*pixels+p, min(lanes, channels-b*lanes), min(piece, pixels-p), pixels, lanes)
		}
	})
}

// Scale returns the kernel of Mul of an image by one number for each channel,
// in either order; other operands are passed to mul.
func Scale(mul kernel.Func) kernel.Func {
	return func(c *kernel.Call) error {
		x, y := c.In[0], c.In[1]
		if x.Len() < y.Len() {
			x, y = y, x
		}
		size, err := Spatial(x)
		if err != nil {
			return err
		}
		n, lanes := kernel.Product(size), Kernels().Lanes()
		if x.Type != onnx.FLOAT || y.Type != onnx.FLOAT || n < 2 || y.Rank() != x.Rank() || y.Shape[0] != x.Shape[0] && y.Shape[0] != 1 || y.Shape[1] != x.Shape[1] || y.Len() != y.Shape[0]*y.Shape[1]*lanes {
			return mul(c)
		}
		out, err := c.Result(0, onnx.FLOAT, x.Shape...)
		if err != nil || out.Len() == 0 {
			return err
		}
		xs, ys, o := kernel.Elements[float32](x), kernel.Elements[float32](y), kernel.Elements[float32](out)
		c.Each(len(o)/lanes/n, n*lanes, func(_, lo, hi int) {
			for b := lo; b < hi; b++ {
				at := b * lanes % len(ys)
				Kernels().MulLanes(o[b*n*lanes:(b+1)*n*lanes], xs[b*n*lanes:(b+1)*n*lanes], ys[at:at+lanes])
			}
		})
		return nil
	}
}

// Concat returns the kernel that concatenates images of the given channels.
func Concat(channels []int) kernel.Func {
	return func(c *kernel.Call) error {
		lanes, all := Kernels().Lanes(), 0
		size, err := Spatial(c.In[0])
		if err != nil {
			return err
		}
		first := c.In[0].Shape
		for i, a := range c.In {
			want := append([]int{first[0], Blocks(channels[i], lanes)}, first[2:]...)
			if a.Type != onnx.FLOAT || !slices.Equal(a.Shape, want) {
				return fmt.Errorf("shape mismatch: input %d is %v, the first %v", i, a.Shape, first)
			}
			all += channels[i]
		}
		out, err := c.Result(0, onnx.FLOAT, Shape(first[0], all, size)...)
		if err != nil || out.Len() == 0 {
			return err
		}
		// The parts of the output's blocks, each from one block of an input.
		type part struct{ input, from, fromLane, to, toLane, n int }
		var parts []part
		at := 0
		for i, n := range channels {
			for ch := 0; ch < n; {
				k := min(n-ch, lanes-ch%lanes, lanes-at%lanes)
				parts = append(parts, part{i, ch / lanes, ch % lanes, at / lanes, at % lanes, k})
				ch, at = ch+k, at+k
			}
		}
		n, per, o := kernel.Product(size), Blocks(all, lanes), kernel.Elements[float32](out)
		c.Each(first[0]*len(parts), n*lanes, func(_, lo, hi int) {
			for t := lo; t < hi; t++ {
				b, p := t/len(parts), parts[t%len(parts)]
				x := c.In[p.input]
				src := kernel.Elements[float32](x)[(b*x.Shape[1]+p.from)*n*lanes:][:n*lanes]
				dst := o[(b*per+p.to)*n*lanes:][:n*lanes]
				if p.n == lanes {
					copy(dst, src)
					continue
				}
				for i := 0; i < len(dst); i += lanes {
					copy(dst[i+p.toLane:i+p.toLane+p.n], src[i+p.fromLane:])
				}
			}
		})
		return nil
	}
}
