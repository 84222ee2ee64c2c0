// Some operators of ONNX move elements without
// computing: shapes, transpositions, slices, concatenation, gathering and
// scattering, constants.

package op

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// copied creates an output of the given shape by Strided.
func copied(c *kernel.Call, i int, src *kernel.Array, shape []int, offset int, stride []int) error {
	out, err := c.Result(i, src.Type, shape...)
	if err != nil {
		return err
	}
	c.Strided(out, src, shape, offset, stride)
	return nil
}

// transpose permutes dimensions.
func transpose(c *kernel.Call) error {
	x := c.In[0]
	perm := c.Ints("perm")
	if perm == nil {
		for i := x.Rank() - 1; i >= 0; i-- {
			perm = append(perm, i)
		}
	}
	if sorted, err := kernel.AllAxes(perm, x.Rank()); err != nil || len(sorted) != x.Rank() {
		return fmt.Errorf("bad perm %v for %d dimensions", perm, x.Rank())
	}
	strides := kernel.Strides(x.Shape)
	shape, stride := make([]int, len(perm)), make([]int, len(perm))
	for i, p := range perm {
		p, _ = kernel.Axis(p, x.Rank())
		shape[i], stride[i] = x.Shape[p], strides[p]
	}
	return copied(c, 0, x, shape, 0, stride)
}

// expand broadcasts to a shape.
func expand(c *kernel.Call) error {
	want, err := c.Integers(1)
	if err != nil {
		return err
	}
	for _, d := range want {
		if d < 0 {
			return fmt.Errorf("negative dimension in shape %v", want)
		}
	}
	shape, err := kernel.Broadcast(c.In[0].Shape, want)
	if err != nil {
		return err
	}
	return copied(c, 0, c.In[0], shape, 0, kernel.Stretch(c.In[0].Shape, shape))
}

// where selects between two arrays.
func where(c *kernel.Call) error {
	cond, x, y := c.In[0], c.In[1], c.In[2]
	if cond.Type != onnx.BOOL || x.Type != y.Type {
		return fmt.Errorf("type mismatch: condition %s for %s and %s", cond.Type, x.Type, y.Type)
	}
	shape, err := kernel.Broadcast(cond.Shape, x.Shape, y.Shape)
	if err != nil {
		return err
	}
	out, err := c.Result(0, x.Type, shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	sc, sx, sy := kernel.Stretch(cond.Shape, shape), kernel.Stretch(x.Shape, shape), kernel.Stretch(y.Shape, shape)
	size := kernel.Size(x.Type)
	cb, xb, yb, ob := kernel.Elements[bool](cond), x.Bytes(), y.Bytes(), out.Bytes()
	c.Each(out.Len(), 4, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			ci, xi, yi := 0, 0, 0
			for i, k := len(shape)-1, r; i >= 0; i-- {
				v := k % shape[i]
				k /= shape[i]
				ci, xi, yi = ci+v*sc[i], xi+v*sx[i], yi+v*sy[i]
			}
			from, at := yb, yi
			if cb[ci] {
				from, at = xb, xi
			}
			copy(ob[r*size:(r+1)*size], from[at*size:])
		}
	})
	return nil
}

// concat concatenates along an axis.
func concat(c *kernel.Call) error {
	first := c.In[0]
	along, err := kernel.Axis(c.Int("axis", 1), first.Rank())
	if err != nil {
		return err
	}
	shape := append([]int(nil), first.Shape...)
	shape[along] = 0
	for i, a := range c.In {
		if a == nil || a.Type != first.Type || a.Rank() != first.Rank() {
			return fmt.Errorf("input %d differs in type or rank from the first", i)
		}
		for k, d := range a.Shape {
			if k != along && d != shape[k] {
				return fmt.Errorf("shape mismatch: input %d is %v, the first %v", i, a.Shape, first.Shape)
			}
		}
		shape[along] += a.Shape[along]
	}
	out, err := c.Result(0, first.Type, shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	inner := kernel.Product(shape[along+1:]) * kernel.Size(first.Type)
	outer, row, at, ob := kernel.Product(shape[:along]), shape[along]*inner, 0, out.Bytes()
	for _, a := range c.In {
		n, b := a.Shape[along]*inner, a.Bytes()
		for r := range outer {
			copy(ob[r*row+at:r*row+at+n], b[r*n:])
		}
		at += n
	}
	return nil
}

// split splits along an axis.
func split(c *kernel.Call) error {
	x := c.In[0]
	along, err := kernel.Axis(c.Int("axis", 0), x.Rank())
	if err != nil {
		return err
	}
	parts, err := c.Axes("split", 1, 13)
	if err != nil {
		return err
	}
	if parts == nil {
		n, d := len(c.Out), x.Shape[along]
		each := (d + n - 1) / n
		if c.Opset < 18 && d%n != 0 {
			return fmt.Errorf("cannot split %d elements into %d", d, n)
		}
		for i := range n {
			parts = append(parts, max(0, min(each, d-i*each)))
		}
	}
	sum := 0
	for _, p := range parts {
		if p < 0 || p > x.Shape[along] {
			return fmt.Errorf("bad split %v", parts)
		}
		sum += p
	}
	if len(parts) != len(c.Out) || sum != x.Shape[along] {
		return fmt.Errorf("split %v does not match %d elements and %d outputs", parts, x.Shape[along], len(c.Out))
	}
	strides, at := kernel.Strides(x.Shape), 0
	for i, p := range parts {
		shape := append([]int(nil), x.Shape...)
		shape[along] = p
		if err := copied(c, i, x, shape, at*strides[along], strides); err != nil {
			return err
		}
		at += p
	}
	return nil
}

// slice selects ranges of some axes.
func slice(c *kernel.Call) error {
	x := c.In[0]
	var starts, ends, axes, steps []int
	if c.Opset < 10 {
		starts, ends, axes = c.Ints("starts"), c.Ints("ends"), c.Ints("axes")
	} else {
		for i, to := range []*[]int{&starts, &ends, &axes, &steps} {
			list, err := c.Integers(i + 1)
			if err != nil {
				return err
			}
			*to = list
		}
	}
	if axes == nil {
		for i := range starts {
			axes = append(axes, i)
		}
	}
	if len(ends) != len(starts) || len(axes) != len(starts) || steps != nil && len(steps) != len(starts) {
		return fmt.Errorf("length mismatch: %d starts, %d ends, %d axes, %d steps", len(starts), len(ends), len(axes), len(steps))
	}
	if _, err := kernel.AllAxes(axes, x.Rank()); err != nil {
		return err
	}
	shape, stride, offset := append([]int(nil), x.Shape...), kernel.Strides(x.Shape), 0
	strides := kernel.Strides(x.Shape)
	for i, k := range axes {
		k, _ = kernel.Axis(k, x.Rank())
		step, d := 1, x.Shape[k]
		if steps != nil {
			step = steps[i]
		}
		if step == 0 {
			return fmt.Errorf("step is 0")
		}
		lo, hi := starts[i], ends[i]
		if lo < 0 {
			lo += d
		}
		if hi < 0 {
			hi += d
		}
		if step > 0 {
			lo, hi = min(max(lo, 0), d), min(max(hi, 0), d)
			shape[k] = max(0, (hi-lo+step-1)/step)
		} else {
			lo, hi = min(max(lo, 0), d-1), min(max(hi, -1), d-1)
			shape[k] = max(0, (lo-hi-step-1)/-step)
		}
		offset += lo * strides[k]
		stride[k] = step * strides[k]
	}
	return copied(c, 0, x, shape, offset, stride)
}

// tile repeats each dimension.
func tile(c *kernel.Call) error {
	x := c.In[0]
	times, err := c.Integers(1)
	if err != nil || len(times) != x.Rank() {
		return fmt.Errorf("bad repeats %v for %d dimensions: %v", times, x.Rank(), err)
	}
	shape := make([]int, x.Rank())
	for i, d := range x.Shape {
		if times[i] < 0 {
			return fmt.Errorf("bad repeats %v", times)
		}
		shape[i] = d * times[i]
	}
	if _, err := kernel.Count(shape); err != nil {
		return err
	}
	strides := kernel.Strides(x.Shape)
	return c.Take(x, shape, func(i int) int {
		at := 0
		for k := len(shape) - 1; k >= 0; k-- {
			at += i % shape[k] % x.Shape[k] * strides[k]
			i /= shape[k]
		}
		return at
	}, nil)
}

// pad adds elements at the ends of each dimension, or removes some.
func pad(c *kernel.Call) error {
	x, mode := c.In[0], c.Text("mode", "constant")
	pads, err := c.Axes("pads", 1, 11)
	if err != nil {
		return err
	}
	fill := c.Input(2)
	if c.Opset < 11 {
		if v := c.Float("value", 0); v != 0 && x.Type == onnx.FLOAT {
			if fill, err = c.Arena.New(onnx.FLOAT); err != nil {
				return err
			}
			defer c.Arena.Release(fill)
			kernel.Elements[float32](fill)[0] = v
		}
	}
	if fill != nil && (fill.Type != x.Type || fill.Len() != 1) {
		return fmt.Errorf("value is not a single %s", x.Type)
	}
	axes, err := c.Integers(3)
	if err != nil {
		return err
	}
	before, after, err := spread(pads, axes, x.Rank())
	if err != nil {
		return err
	}
	shape, strides := make([]int, x.Rank()), kernel.Strides(x.Shape)
	for i, d := range x.Shape {
		shape[i] = before[i] + d + after[i]
		if most := max(before[i], after[i]); mode != "constant" && mode != "wrap" && (most > 0 && d == 0 || mode == "reflect" && most > 0 && most > d-1) {
			return fmt.Errorf("%s padding by %d exceeds %d elements", mode, most, d)
		}
		if mode == "wrap" && d == 0 && shape[i] > 0 {
			return fmt.Errorf("wrap padding of an empty dimension")
		}
	}
	if _, err := kernel.Count(shape); err != nil {
		return err
	}
	if mode == "constant" && (len(before) == 0 || slices.Min(before) >= 0 && slices.Min(after) >= 0) {
		return framed(c, x, shape, before, fill)
	}
	return c.Take(x, shape, func(i int) int {
		at := 0
		for k := len(shape) - 1; k >= 0; k-- {
			v, d := i%shape[k]-before[k], x.Shape[k]
			i /= shape[k]
			if v < 0 || v >= d {
				if v = outside(mode, v, d); v < 0 {
					return -1
				}
			}
			at += v * strides[k]
		}
		return at
	}, fill)
}

// framed copies an array into the middle of a larger one filled with fill.
func framed(c *kernel.Call, x *kernel.Array, shape, before []int, fill *kernel.Array) error {
	out, err := c.Result(0, x.Type, shape...)
	if err != nil {
		return err
	}
	size, o, b := kernel.Size(x.Type), out.Bytes(), x.Bytes()
	clear(o)
	if fill != nil && slices.ContainsFunc(fill.Bytes(), func(v byte) bool { return v != 0 }) {
		for n := copy(o, fill.Bytes()); n < len(o); n *= 2 {
			copy(o[n:], o[:n])
		}
	}
	if x.Len() == 0 {
		return nil
	}
	if len(shape) == 0 {
		copy(o, b)
		return nil
	}
	last, strides := len(shape)-1, kernel.Strides(shape)
	row := x.Shape[last] * size
	for r := range len(b) / row {
		at := before[last]
		for k, i := last-1, r; k >= 0; k-- {
			at += (i%x.Shape[k] + before[k]) * strides[k]
			i /= x.Shape[k]
		}
		copy(o[at*size:at*size+row], b[r*row:])
	}
	return nil
}

// outside returns the element that represents one beyond the ends; -1 for none.
func outside(mode string, v, d int) int {
	switch mode {
	case "edge":
		return min(max(v, 0), d-1)
	case "reflect":
		if v < 0 {
			v = -v
		} else {
			v = 2*(d-1) - v
		}
		return min(max(v, 0), d-1)
	case "wrap":
		return ((v % d) + d) % d
	}
	return -1
}

// spread returns the pads of each dimension.
func spread(pads, axes []int, rank int) (before, after []int, err error) {
	if axes == nil {
		for i := range rank {
			axes = append(axes, i)
		}
	}
	if len(pads) != 2*len(axes) {
		return nil, nil, fmt.Errorf("%d pads for %d axes", len(pads), len(axes))
	}
	if _, err := kernel.AllAxes(axes, rank); err != nil {
		return nil, nil, err
	}
	before, after = make([]int, rank), make([]int, rank)
	for i, k := range axes {
		k, _ = kernel.Axis(k, rank)
		before[k], after[k] = pads[i], pads[i+len(axes)]
	}
	return before, after, nil
}

// depthToSpace moves channels into blocks of pixels.
func depthToSpace(c *kernel.Call) error {
	x, b := c.In[0], c.Int("blocksize", 0)
	if x.Rank() != 4 || b < 1 || b > 1<<15 || x.Shape[1]%(b*b) != 0 {
		return fmt.Errorf("bad block size %d for %v", b, x.Shape)
	}
	n, ch, h, w := x.Shape[0], x.Shape[1]/(b*b), x.Shape[2], x.Shape[3]
	split, perm := []int{n, b, b, ch, h, w}, []int{0, 3, 4, 1, 5, 2}
	if c.Text("mode", "DCR") == "CRD" {
		split, perm = []int{n, ch, b, b, h, w}, []int{0, 1, 4, 2, 5, 3}
	}
	return regroup(c, x, split, perm, []int{n, ch, h * b, w * b})
}

func spaceToDepth(c *kernel.Call) error {
	x, b := c.In[0], c.Int("blocksize", 0)
	if x.Rank() != 4 || b < 1 || b > 1<<15 || x.Shape[2]%b != 0 || x.Shape[3]%b != 0 {
		return fmt.Errorf("bad block size %d for %v", b, x.Shape)
	}
	n, ch, h, w := x.Shape[0], x.Shape[1], x.Shape[2]/b, x.Shape[3]/b
	return regroup(c, x, []int{n, ch, h, b, w, b}, []int{0, 3, 5, 1, 2, 4}, []int{n, ch * b * b, h, w})
}

// regroup splits dimensions, permutes them and joins them again.
func regroup(c *kernel.Call, x *kernel.Array, split, perm, joined []int) error {
	strides := kernel.Strides(split)
	shape, stride := make([]int, len(perm)), make([]int, len(perm))
	for i, p := range perm {
		shape[i], stride[i] = split[p], strides[p]
	}
	out, err := c.Result(0, x.Type, joined...)
	if err != nil {
		return err
	}
	c.Strided(out, x, shape, 0, stride)
	return nil
}

// reverse reverses sequences of different lengths.
func reverse(c *kernel.Call) error {
	x := c.In[0]
	batch, time := c.Int("batch_axis", 1), c.Int("time_axis", 0)
	lens, err := c.Integers(1)
	if err != nil || x.Rank() < 2 || batch+time != 1 || batch*time != 0 || len(lens) != x.Shape[batch] {
		return fmt.Errorf("got %d lengths for %v: %v", len(lens), x.Shape, err)
	}
	for _, n := range lens {
		if n < 0 || n > x.Shape[time] {
			return fmt.Errorf("bad lengths %v for %v", lens, x.Shape)
		}
	}
	strides := kernel.Strides(x.Shape)
	return c.Take(x, x.Shape, func(i int) int {
		b, t := i/strides[batch]%x.Shape[batch], i/strides[time]%x.Shape[time]
		if t < lens[b] {
			i += (lens[b] - 1 - 2*t) * strides[time]
		}
		return i
	}, nil)
}

// triangle keeps the upper or lower triangle of matrices.
func triangle(c *kernel.Call) error {
	x, k := c.In[0], 0
	if x.Rank() < 2 {
		return fmt.Errorf("no matrix for a triangle: %v", x.Shape)
	}
	if a := c.Input(1); a != nil {
		list, err := c.Integers(1)
		if err != nil || len(list) != 1 {
			return fmt.Errorf("k is not a single number: %v", err)
		}
		k = list[0]
	}
	rows, cols, upper := x.Dim(-2), x.Dim(-1), c.Int("upper", 1) != 0
	return c.Take(x, x.Shape, func(i int) int {
		if r, col := i/cols%rows, i%cols; upper && col-r >= k || !upper && col-r <= k {
			return i
		}
		return -1
	}, nil)
}
