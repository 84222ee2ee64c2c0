package op

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/core/graph/array"
	"mm-abi.org/mm/core/graph/conv"
	"mm-abi.org/mm/core/onnx"
	"mm-abi.org/mm/core/tensor"
)

// The kernels in this file work on images in blocks of channels (package
// core/graph/conv): arrays [batch][block][spatial…][lane] that stand for
// [batch][channel][spatial…]. The planner of core/graph chooses them where a
// model's convolutions follow each other. Operators on single elements take
// such arrays as they are.

// After is what is joined to a convolution: results are brought between Low and
// High, then Shape goes over them, if there is one.
type After struct {
	Low, High float32
	Shape     *tensor.Shaper
}

// kernels are those that blocks are laid out for.
func kernels() tensor.ConvKernels { return tensor.BestConv() }

// spatial is the dimensions of an image in blocks between blocks and lanes.
func spatial(x *Array) ([]int, error) {
	n := x.Rank()
	if n < 4 || n > 5 || x.Type != onnx.FLOAT || x.Shape[n-1] != kernels().Lanes() {
		return nil, fmt.Errorf("%s %v is no image in blocks", x.Type, x.Shape)
	}
	return x.Shape[2 : n-1], nil
}

// blocks is the shape of an image in blocks.
func blocks(batch, channels int, spatial []int) []int {
	lanes := kernels().Lanes()
	return append(append([]int{batch, conv.Blocks(channels, lanes)}, spatial...), lanes)
}

// work is what package conv works with. done gives its memory up.
func (c *Call) work() (w *conv.Work, done func()) {
	var mine []*Array
	w = &conv.Work{For: c.loop, Rows: c.Rows, Room: func(n int) ([]float32, error) {
		a, err := c.Arena.New(onnx.FLOAT, n)
		if err != nil {
			return nil, err
		}
		mine = append(mine, a)
		return array.Of[float32](a), nil
	}}
	return w, func() {
		for _, a := range mine {
			c.Arena.Release(a)
		}
	}
}

// ToBlocks lays an image of so many channels out in blocks.
func ToBlocks(channels int) Kernel {
	return func(c *Call) error {
		x := c.In[0]
		if x.Rank() < 3 || x.Rank() > 4 || x.Type != onnx.FLOAT || x.Shape[1] != channels {
			return fmt.Errorf("%s %v is no image of %d channels", x.Type, x.Shape, channels)
		}
		out, err := c.result(0, onnx.FLOAT, blocks(x.Shape[0], channels, x.Shape[2:])...)
		if err != nil || out.Len() == 0 {
			return err
		}
		reorder(c, channels, product(x.Shape[2:]), x.Shape[0], func(at, image, ch, n, pixels, lanes int) {
			tensor.Interleave(array.Of[float32](out)[at:], lanes, array.Of[float32](x)[image:], pixels, ch, n)
		})
		return nil
	}
}

// ToPlain is the way back.
func ToPlain(channels int) Kernel {
	return func(c *Call) error {
		x := c.In[0]
		size, err := spatial(x)
		if err != nil {
			return err
		}
		if x.Shape[1] != conv.Blocks(channels, kernels().Lanes()) {
			return fmt.Errorf("%v is no image of %d channels", x.Shape, channels)
		}
		out, err := c.result(0, onnx.FLOAT, append([]int{x.Shape[0], channels}, size...)...)
		if err != nil || out.Len() == 0 {
			return err
		}
		reorder(c, channels, product(size), x.Shape[0], func(at, image, ch, n, pixels, lanes int) {
			tensor.Deinterleave(array.Of[float32](out)[image:], pixels, array.Of[float32](x)[at:], lanes, ch, n)
		})
		return nil
	}
}

// reorder cuts the pixels of all blocks into pieces: f is told where one is in
// blocks and in planes, its channels and its pixels.
func reorder(c *Call, channels, pixels, batch int, f func(at, image, ch, n, all, lanes int)) {
	const piece = 1 << 10
	lanes := kernels().Lanes()
	per, pieces := conv.Blocks(channels, lanes), (pixels+piece-1)/piece
	c.each(batch*per*pieces, min(piece, pixels)*lanes, func(_, lo, hi int) {
		for t := lo; t < hi; t++ {
			n, b, p := t/pieces/per, t/pieces%per, t%pieces*piece
			f(((n*per+b)*pixels+p)*lanes, (n*channels+b*lanes)*pixels+p, min(lanes, channels-b*lanes), min(piece, pixels-p), pixels, lanes)
		}
	})
}

// layout is what a convolution's attributes, or a pool's, make of images of
// one shape.
type layout struct {
	in   []int
	all  window
	win  conv.Window
	out  []int
	pool *conv.Pool
}

// flat is the window over rows and columns.
func (w *window) flat() conv.Window {
	two := func(v [3]int) [2]int { return [2]int{v[1], v[2]} }
	return conv.Window{In: two(w.in), Out: two(w.out), Kernel: two(w.kernel), Stride: two(w.stride), Dilation: two(w.dilation), Before: two(w.before)}
}

// laid finds the window of a filter, or of a pool when kernel is nil, over an
// image; it is worked out once for images of one shape.
func (c *Call) laid(x *Array, plain bool, channels int, kernel []int) (*layout, error) {
	if l, ok := (*c.Cache).(*layout); ok && slices.Equal(l.in, x.Shape) {
		return l, nil
	}
	size, err := []int(nil), error(nil)
	if plain {
		if x.Rank() < 3 || x.Rank() > 4 || x.Type != onnx.FLOAT || x.Shape[1] != channels {
			return nil, fmt.Errorf("%s %v is no image of %d channels", x.Type, x.Shape, channels)
		}
		size = x.Shape[2:]
	} else if size, err = spatial(x); err != nil {
		return nil, err
	}
	w, err := c.window(size, kernel)
	if err != nil {
		return nil, err
	}
	if err := c.slide(&w); err != nil {
		return nil, err
	}
	if err := w.sound(max(channels, 1)); err != nil {
		return nil, err
	}
	l := &layout{in: slices.Clone(x.Shape), all: w, win: w.flat(), out: slices.Clone(w.outs())}
	*c.Cache = l
	return l, nil
}

// Convolution is Conv with packed weights over images of a rank, and a second
// input, if there is one, that is added to the sums.
func Convolution(f *conv.Filter, rank int) Kernel {
	s := f.Spec()
	return func(c *Call) error {
		x := c.In[0]
		l, err := c.laid(x, s.Plain, s.In, s.Kernel[4-rank:])
		if err != nil {
			return err
		}
		if !s.Plain && x.Shape[1] != conv.Blocks(s.In, kernels().Lanes()) {
			return fmt.Errorf("%v is no image of %d channels", x.Shape, s.In)
		}
		out, err := c.result(0, onnx.FLOAT, blocks(x.Shape[0], s.Out, l.out)...)
		if err != nil || out.Len() == 0 {
			return err
		}
		after := conv.Nothing()
		if c.After != nil {
			after = conv.After{Low: c.After.Low, High: c.After.High, Shape: c.After.Shape}
		}
		var add *Array
		if len(c.In) > 1 {
			add = c.In[1]
			if !slices.Equal(add.Shape, out.Shape) { // it is broadcast
				after, add = conv.Nothing(), nil
			} else {
				after.Add = array.Of[float32](add)
			}
		}
		work, done := c.work()
		defer done()
		if err := f.Do(work, l.win, x.Shape[0], array.Of[float32](out), array.Of[float32](x), after); err != nil {
			return err
		}
		if len(c.In) > 1 && add == nil {
			return c.addAfter()
		}
		return nil
	}
}

// addAfter adds the second input to the output, whose shape it has not, and
// goes on with what is joined.
func (c *Call) addAfter() error {
	sums := c.Out[0]
	out, err := zip(c, sums, c.In[1], arithmetic[float32]("Add", false))
	if err != nil {
		return err
	}
	c.Arena.Release(sums)
	c.Out[0] = out
	o := array.Of[float32](out)
	c.each(len(o), 1, func(_, lo, hi int) { c.after(o[lo:hi], 0) })
	return nil
}

// BlockedPool is MaxPool and AveragePool.
func BlockedPool(c *Call) error {
	x := c.In[0]
	l, err := c.laid(x, false, 1, nil)
	if err != nil {
		return err
	}
	out, err := c.result(0, onnx.FLOAT, append(append(slices.Clone(x.Shape[:2]), l.out...), x.Shape[x.Rank()-1])...)
	if err != nil || out.Len() == 0 {
		return err
	}
	if l.pool == nil {
		var count func(dim, o int) int
		if c.int("count_include_pad", 0) != 0 {
			count = func(dim, o int) int { return l.all.coveredIn(dim+1, o) }
		}
		l.pool = conv.NewPool(kernels(), l.win, c.Node.Op == "MaxPool", count)
	}
	work, done := c.work()
	defer done()
	l.pool.Do(work, x.Shape[0]*x.Shape[1], array.Of[float32](out), array.Of[float32](x))
	return nil
}

// BlockedMean is GlobalAveragePool.
func BlockedMean(c *Call) error {
	x := c.In[0]
	size, err := spatial(x)
	if err != nil {
		return err
	}
	shape := slices.Clone(x.Shape)
	for i := range size {
		shape[2+i] = 1
	}
	out, err := c.result(0, onnx.FLOAT, shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	n, lanes := product(size), kernels().Lanes()
	xs, o := array.Of[float32](x), array.Of[float32](out)
	c.each(len(o)/lanes, n*lanes, func(_, lo, hi int) {
		for b := lo; b < hi; b++ {
			sum := o[b*lanes : (b+1)*lanes]
			kernels().SumLanes(sum, xs[b*n*lanes:(b+1)*n*lanes])
			tensor.Scale(sum, 1/float32(n))
		}
	})
	return nil
}

// BlockedScale is Mul of an image by one number for each channel of it, in
// either order; or of whatever else Mul takes.
func BlockedScale(mul Kernel) Kernel {
	return func(c *Call) error {
		x, y := c.In[0], c.In[1]
		if x.Len() < y.Len() {
			x, y = y, x
		}
		size, err := spatial(x)
		if err != nil {
			return err
		}
		n, lanes := product(size), kernels().Lanes()
		if x.Type != onnx.FLOAT || y.Type != onnx.FLOAT || n < 2 || y.Rank() != x.Rank() || y.Shape[0] != x.Shape[0] && y.Shape[0] != 1 || y.Shape[1] != x.Shape[1] || y.Len() != y.Shape[0]*y.Shape[1]*lanes {
			return mul(c)
		}
		out, err := c.result(0, onnx.FLOAT, x.Shape...)
		if err != nil || out.Len() == 0 {
			return err
		}
		xs, ys, o := array.Of[float32](x), array.Of[float32](y), array.Of[float32](out)
		c.each(len(o)/lanes/n, n*lanes, func(_, lo, hi int) {
			for b := lo; b < hi; b++ {
				at := b * lanes % len(ys)
				kernels().MulLanes(o[b*n*lanes:(b+1)*n*lanes], xs[b*n*lanes:(b+1)*n*lanes], ys[at:at+lanes])
			}
		})
		return nil
	}
}

// BlockedConcat is Concat of images of so many channels each, by channels.
func BlockedConcat(channels []int) Kernel {
	return func(c *Call) error {
		lanes, all := kernels().Lanes(), 0
		size, err := spatial(c.In[0])
		if err != nil {
			return err
		}
		first := c.In[0].Shape
		for i, a := range c.In {
			want := append([]int{first[0], conv.Blocks(channels[i], lanes)}, first[2:]...)
			if a.Type != onnx.FLOAT || !slices.Equal(a.Shape, want) {
				return fmt.Errorf("input %d is %v, the first %v", i, a.Shape, first)
			}
			all += channels[i]
		}
		out, err := c.result(0, onnx.FLOAT, blocks(first[0], all, size)...)
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
		n, per, o := product(size), conv.Blocks(all, lanes), array.Of[float32](out)
		c.each(first[0]*len(parts), n*lanes, func(_, lo, hi int) {
			for t := lo; t < hi; t++ {
				b, p := t/len(parts), parts[t%len(parts)]
				x := c.In[p.input]
				src := array.Of[float32](x)[(b*x.Shape[1]+p.from)*n*lanes:][:n*lanes]
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

// Transposition is ConvTranspose with packed weights, whose windows lie side by
// side, over images of a rank. Its results are in blocks unless t.Plain.
func Transposition(t *conv.Transposed, rank int) Kernel {
	in, channels := t.Channels()
	return func(c *Call) error {
		x, k := c.In[0], t.Kernel()
		size, err := spatial(x)
		if err != nil {
			return err
		}
		if len(size) != rank-2 || x.Shape[1] != conv.Blocks(in, kernels().Lanes()) {
			return fmt.Errorf("%v is no image of %d channels", x.Shape, in)
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
			shape = blocks(x.Shape[0], channels, to)
		}
		out, err := c.result(0, onnx.FLOAT, shape...)
		if err != nil || out.Len() == 0 {
			return err
		}
		after := conv.Nothing()
		if c.After != nil {
			after = conv.After{Low: c.After.Low, High: c.After.High, Shape: c.After.Shape}
		}
		work, done := c.work()
		defer done()
		return t.Do(work, two, x.Shape[0], array.Of[float32](out), array.Of[float32](x), after)
	}
}
