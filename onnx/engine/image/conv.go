// Package image holds the operators of ONNX on images: convolutions, pools,
// resizing, and non-maximum suppression. It has additional kernels for blocked
// images (package conv), which the planner of onnx/engine selects.
package image

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// convolution holds the sizes derived from input, weights and attributes.
type convolution struct {
	window
	batch, groups  int
	cin, cout      int // channels in a group
	inputs, result int // channels in all groups
}

func convolutionOf(c *kernel.Call, x, w []int) (g convolution, err error) {
	if len(x) < 3 || len(w) != len(x) {
		return g, fmt.Errorf("shape mismatch: kernel %v over %v", w, x)
	}
	g.groups = c.Int("group", 1)
	g.batch, g.inputs, g.result = x[0], x[1], w[0]
	if g.groups < 1 || g.inputs%g.groups != 0 || g.result%g.groups != 0 || w[1] != g.inputs/g.groups || g.result == 0 || g.inputs == 0 {
		return g, fmt.Errorf("shape mismatch: kernel %v over %v in %d groups", w, x, g.groups)
	}
	g.cin, g.cout = g.inputs/g.groups, g.result/g.groups
	if g.window, err = windowOf(c, x[2:], w[2:]); err != nil {
		return g, err
	}
	if err := slide(c, &g.window); err != nil {
		return g, err
	}
	return g, g.sound(g.cin)
}

// convolve computes Conv: for each group, the weights times the columns under
// the kernel, tile by tile of outputs, so that a tile's columns stay in the
// cache.
func convolve(c *kernel.Call) error {
	in, err := c.Floats(0, 1, 2)
	if err != nil {
		return err
	}
	g, err := convolutionOf(c, c.In[0].Shape, c.In[1].Shape)
	if err != nil {
		return err
	}
	if err := c.Lengths(g.result, 2); err != nil {
		return err
	}
	out, err := c.Result(0, onnx.FLOAT, g.outs(g.batch, g.result)...)
	if err != nil || out.Len() == 0 {
		return err
	}
	o := kernel.Elements[float32](out)
	if g.cin == 1 && g.cout <= 4 {
		c.Each(g.batch*g.result, g.outSize*g.kernelSize, func(_, lo, hi int) {
			for r := lo; r < hi; r++ {
				k := r % g.result
				plane := o[r*g.outSize : (r+1)*g.outSize]
				bias(plane, in[2], k)
				g.depthwise(plane, in[0][(r/g.result*g.inputs+k/g.cout)*g.inSize:], in[1][k*g.kernelSize:])
				after(c, plane, 0)
			}
		})
		return nil
	}
	k := g.cin * g.kernelSize
	weights, ld := spaced(c, in[1], k)
	tile := min(g.outSize, max(64, (1<<17)/k/32*32))
	tiles := (g.outSize + tile - 1) / tile
	block := g.cout
	if tiles*g.batch*g.groups < 8 && g.cout >= 48 {
		block = (g.cout/4 + 11) / 12 * 12
	}
	blocks := (g.cout + block - 1) / block
	c.Each(g.batch*g.groups*tiles*blocks, kernel.Grain, func(thread, lo, hi int) {
		for t := lo; t < hi; t++ {
			rest, b := t/blocks, t%blocks
			n, gr, p := rest/tiles/g.groups, rest/tiles%g.groups, rest%tiles*tile
			first, rows := gr*g.cout+b*block, min(block, g.cout-b*block)
			g.tile(&c.Lanes[thread], o[(n*g.result+first)*g.outSize:], in[0][(n*g.inputs+gr*g.cin)*g.inSize:], weights[first*ld:], ld, rows, p, min(p+tile, g.outSize))
			for r := range rows {
				at := (n*g.result+first+r)*g.outSize + p
				seg := o[at : at+min(tile, g.outSize-p)]
				add := float32(0)
				if in[2] != nil {
					add = in[2][first+r]
				}
				after(c, seg, add)
			}
		}
	})
	return nil
}

// spaced returns fixed weights with rows at a distance at which they do not
// evict each other from the cache.
func spaced(c *kernel.Call, weights []float32, k int) ([]float32, int) {
	ld := tensor.Stride(k)
	if ld == k || !c.Same(1) {
		return weights, k
	}
	if w, ok := (*c.Cache).([]float32); ok {
		return w, ld
	}
	w := make([]float32, len(weights)/k*ld)
	for r := range len(weights) / k {
		copy(w[r*ld:], weights[r*k:(r+1)*k])
	}
	*c.Cache = w
	return w, ld
}

// bias fills a plane with its channel's bias.
func bias(plane, values []float32, k int) {
	v := float32(0)
	if values != nil {
		v = values[k]
	}
	for i := range plane {
		plane[i] = v
	}
}

// tile computes the outputs [p0, p1) of some channels of a group.
func (g *convolution) tile(l *kernel.Lane, o, x, weights []float32, ld, rows, p0, p1 int) {
	k, n := g.cin*g.kernelSize, p1-p0
	if g.kernelSize == 1 && g.stride == [3]int{1, 1, 1} && g.before == [3]int{} && g.after == [3]int{} {
		_, panels := l.Room(0, k, n)
		panels.Pack(x[p0:(k-1)*g.inSize+p1], g.inSize)
		panels.Mul(rows, 1, tensor.Rows(weights, ld), 0, o[p0:], g.outSize)
		return
	}
	cols, panels := l.Room(k*n, k, n)
	for ch := range g.cin {
		columns(&g.window, cols[ch*g.kernelSize*n:], n, x[ch*g.inSize:(ch+1)*g.inSize], p0, p1)
	}
	panels.Pack(cols, n)
	panels.Mul(rows, 1, tensor.Rows(weights, ld), 0, o[p0:], g.outSize)
}

// depthwise adds one channel's convolution to a plane, tap by tap.
func (g *convolution) depthwise(o, x, weights []float32) {
	for k := range g.kernelSize {
		kd, kh, kw := k/(g.kernel[1]*g.kernel[2]), k/g.kernel[2]%g.kernel[1], k%g.kernel[2]
		d0, d1 := g.span(0, kd)
		h0, h1 := g.span(1, kh)
		w0, w1 := g.span(2, kw)
		if w0 >= w1 {
			continue
		}
		v := weights[k]
		for d := d0; d < d1; d++ {
			for h := h0; h < h1; h++ {
				id, ih := d*g.stride[0]+kd*g.dilation[0]-g.before[0], h*g.stride[1]+kh*g.dilation[1]-g.before[1]
				at := (id*g.in[1]+ih)*g.in[2] + w0*g.stride[2] + kw*g.dilation[2] - g.before[2]
				row := o[(d*g.out[1]+h)*g.out[2]+w0:][:w1-w0]
				if g.stride[2] == 1 {
					tensor.Axpy(row, v, x[at:at+len(row)])
					continue
				}
				for i := range row {
					row[i] += v * x[at+i*g.stride[2]]
				}
			}
		}
	}
}

// after adds a channel's bias and applies the operations fused into the node.
func after(c *kernel.Call, x []float32, add float32) {
	switch a := c.After; {
	case a == nil && add == 0:
	case a == nil:
		for i, v := range x {
			x[i] = v + add
		}
	case a.Low == 0 && a.High == float32(math.Inf(1)):
		relu(x, x, add)
	default:
		for i, v := range x {
			if v += add; v < a.Low {
				v = a.Low
			}
			if v > a.High {
				v = a.High
			}
			x[i] = v
		}
	}
	if c.After != nil && c.After.Shape != nil {
		c.After.Shape.Apply(x)
	}
}

// relu sets o = max(x + add, 0) by the sign bit: signs are unpredictable, so a
// branch would usually be mispredicted. NaN remains NaN.
func relu(o, x []float32, add float32) {
	x = x[:len(o)]
	const least = 0xff800000 // -Inf; above it are NaNs
	for i, v := range x {
		b := math.Float32bits(v + add)
		if b > least {
			o[i] = v
			continue
		}
		o[i] = math.Float32frombits(b &^ uint32(int32(b)>>31))
	}
}
