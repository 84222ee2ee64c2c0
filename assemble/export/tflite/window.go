package tflite

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/onnx/lower"
)

// The paddings of windows.
const (
	same  = int8(0)
	valid = int8(1)
)

// flat is a window over rows and columns. One over a single dimension has one row.
type flat struct {
	n                          *lower.Node
	kernel, strides, dilations [2]int
	before, after, size, out   [2]int
	batch, channels, results   int
}

func two(x []int, absent int) [2]int {
	if len(x) == 1 {
		return [2]int{absent, x[0]}
	}
	return [2]int{x[0], x[1]}
}

func flatten(n *lower.Node) flat {
	in, out := n.In[0].Shape, n.Out.Shape
	return flat{n: n, kernel: two(n.Kernel, 1), strides: two(n.Strides, 1), dilations: two(n.Dilations, 1), before: two(n.Before, 0), after: two(n.After, 0),
		size: two(in[2:], 1), out: two(out[2:], 1), batch: in[0], channels: in[1], results: out[1]}
}

// input returns the operand as images with channels at the end.
func (c *converter) input(w flat) int {
	x := c.get(w.n.In[0], channelsLast)
	if len(w.n.In[0].Shape) == 3 {
		shape := []int{w.batch, 1, w.size[1], w.channels}
		x = c.op(Reshape, w.n.Out.Name+".rows", lower.Float32, shape, []int{x, c.ints(shape...)})
	}
	return x
}

// output puts the result of a window.
func (c *converter) output(w flat, y int) {
	if len(w.n.Out.Shape) == 3 {
		shape := []int{w.batch, w.out[1], w.results}
		y = c.op(Reshape, w.n.Out.Name+".row", lower.Float32, shape, []int{y, c.ints(shape...)})
	}
	c.put(w.n.Out, channelsLast, y)
}

// image is the shape of the result with channels at the end.
func (w flat) image() []int { return []int{w.batch, w.out[0], w.out[1], w.results} }

// padded returns the padding with the pads of the window if the format may imply
// them, or adds them by an operator.
func (c *converter) padded(w flat, x int, value float32, implied bool) (int, int8, error) {
	zero, equal := true, true
	for i := range 2 {
		total := max(0, (w.out[i]-1)*w.strides[i]+(w.kernel[i]-1)*w.dilations[i]+1-w.size[i])
		zero = zero && w.before[i] == 0 && w.after[i] == 0
		equal = equal && w.before[i] == total/2 && w.after[i] == total-total/2 && w.out[i] == (w.size[i]+w.strides[i]-1)/w.strides[i]
		if w.before[i] < 0 || w.after[i] < 0 {
			return 0, 0, fmt.Errorf("negative pads %v, %v", w.n.Before, w.n.After)
		}
	}
	switch {
	case zero:
		return x, valid, nil
	case equal && implied:
		return x, same, nil
	}
	before, after := []int{0, w.before[0], w.before[1], 0}, []int{0, w.after[0], w.after[1], 0}
	shape := []int{w.batch, w.size[0] + w.before[0] + w.after[0], w.size[1] + w.before[1] + w.after[1], w.channels}
	in := []int{x, c.pads(before, after)}
	code := Pad
	if value != 0 {
		code, in = PadV2, append(in, c.floats(nil, value))
	}
	return c.op(code, w.n.Out.Name+".padded", lower.Float32, shape, in), valid, nil
}

// conv writes a convolution; one filter a channel is a different operator.
func (c *converter) conv(n *lower.Node) error {
	if n.In[1].Const == nil || len(n.In) > 2 && n.In[2].Const == nil {
		return fmt.Errorf("weights are not constant")
	}
	w := flatten(n)
	x, padding, err := c.padded(w, c.input(w), 0, true)
	if err != nil {
		return err
	}
	shape := []int{w.results, n.In[1].Shape[1], w.kernel[0], w.kernel[1]}
	deep := n.Groups > 1 && n.Groups == w.channels
	perm, axis := []int{0, 2, 3, 1}, 0
	if deep { // 1×H×W×C'
		perm, axis = []int{1, 2, 3, 0}, 3
	}
	if n.Groups > 1 && !deep && c.delegate {
		return fmt.Errorf("%d groups", n.Groups)
	}
	filter, err := c.weights(n.In[1].Name, rotate(n.In[1].Const.Floats, shape, perm), permuted(shape, perm), axis, false)
	if err != nil {
		return err
	}
	bias := c.floats([]int{w.results}, make([]float32, w.results)...)
	if len(n.In) > 2 {
		bias = c.get(n.In[2], plain)
	}
	code, options := Conv, []Option{{0, padding}, {1, int32(w.strides[1])}, {2, int32(w.strides[0])}, {3, none}, {4, int32(w.dilations[1])}, {5, int32(w.dilations[0])}}
	if deep {
		code, options = DepthwiseConv, []Option{{0, padding}, {1, int32(w.strides[1])}, {2, int32(w.strides[0])}, {3, int32(w.results / w.channels)}, {4, none}, {5, int32(w.dilations[1])}, {6, int32(w.dilations[0])}}
	}
	c.output(w, c.op(code, n.Out.Name, lower.Float32, w.image(), []int{x, filter, bias}, options...))
	return nil
}

// transposed writes a transposed convolution without pads, and crops its result.
func (c *converter) transposed(n *lower.Node) error {
	w := flatten(n)
	if n.In[1].Const == nil || n.Groups != 1 || w.dilations != [2]int{1, 1} {
		return fmt.Errorf("transposed convolution with %d groups and dilations %v, or weights that are not constant", n.Groups, n.Dilations)
	}
	shape := []int{w.channels, w.results, w.kernel[0], w.kernel[1]}
	perm := []int{1, 2, 3, 0}
	filter, err := c.weights(n.In[1].Name, rotate(n.In[1].Const.Floats, shape, perm), permuted(shape, perm), 0, false)
	if err != nil {
		return err
	}
	full := w.image()
	var crop, missing [4]int
	for i := range 2 {
		full[1+i] = (w.size[i]-1)*w.strides[i] + w.kernel[i]
		crop[1+i] = w.before[i]
		missing[1+i] = max(0, w.before[i]+w.out[i]-full[1+i])
	}
	name := n.Out.Name
	y := c.versioned(Transposed, 1, name+".full", Float32, full, []int{c.ints(full...), filter, c.input(w)}, Option{0, valid}, Option{1, int32(w.strides[1])}, Option{2, int32(w.strides[0])})
	if missing != [4]int{} {
		more := slices.Clone(full)
		for i := range more {
			more[i] += missing[i]
		}
		y = c.op(Pad, name+".more", lower.Float32, more, []int{y, c.pads(make([]int, 4), missing[:])})
		full = more
	}
	if !slices.Equal(full, w.image()) {
		ends := slices.Clone(w.image())
		for i := range ends {
			ends[i] += crop[i]
		}
		y = c.op(StridedSlice, name+".cropped", lower.Float32, w.image(), []int{y, c.ints(crop[:]...), c.ints(ends...), c.ints(1, 1, 1, 1)}, Option{0, int32(0)}, Option{1, int32(0)})
	}
	if len(n.In) > 2 {
		y = c.op(Add, name+".biased", lower.Float32, w.image(), []int{y, c.get(n.In[2], plain)}, Option{0, none})
	}
	c.output(w, y)
	return nil
}

// pool writes a pool. Averages omit the pads of the format, and count those that an
// operator adds.
func (c *converter) pool(n *lower.Node) error {
	w := flatten(n)
	if w.dilations != [2]int{1, 1} {
		return fmt.Errorf("dilations %v", n.Dilations)
	}
	code, value := PoolMax, float32(-math.MaxFloat32)
	if n.Op == lower.AvgPool {
		code, value = PoolAverage, 0
	}
	x := c.input(w)
	y, padding, err := c.padded(w, x, value, !n.Counted)
	if err == nil && y != x && n.Op == lower.AvgPool && !n.Counted {
		err = fmt.Errorf("averages without the pads %v, %v", n.Before, n.After)
	}
	if err != nil {
		return err
	}
	c.output(w, c.op(code, n.Out.Name, lower.Float32, w.image(), []int{y}, Option{0, padding}, Option{1, int32(w.strides[1])}, Option{2, int32(w.strides[0])}, Option{3, int32(w.kernel[1])}, Option{4, int32(w.kernel[0])}, Option{5, none}))
	return nil
}

// resize writes Resize of rows and columns.
func (c *converter) resize(n *lower.Node) error {
	corner, nearest, _ := strings.Cut(n.Corner, " ")
	in, out := n.In[0].Shape, n.Out.Shape
	if n.Mode == "nearest" {
		integer := out[2]%in[2] == 0 && out[3]%in[3] == 0
		if !(corner == "asymmetric" && nearest == "floor" || corner == "half_pixel" && integer) {
			return fmt.Errorf("nearest with %s", n.Corner)
		}
	}
	if corner == "pytorch_half_pixel" && out[2] > 1 && out[3] > 1 {
		corner = "half_pixel"
	}
	if n.Mode != "nearest" && n.Mode != "linear" || corner != "half_pixel" && corner != "asymmetric" && corner != "align_corners" {
		return fmt.Errorf("mode %s with %s", n.Mode, n.Corner)
	}
	code, slot := ResizeBilinear, 2
	if n.Mode == "nearest" {
		code, slot = ResizeNearest, 0
	}
	image := []int{out[0], out[2], out[3], out[1]}
	c.put(n.Out, channelsLast, c.versioned(code, 3, n.Out.Name, Float32, image, []int{c.get(n.In[0], channelsLast), c.ints(out[2], out[3])}, Option{slot, corner == "align_corners"}, Option{slot + 1, corner == "half_pixel"}))
	return nil
}
