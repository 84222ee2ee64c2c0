package op

import (
	"fmt"
	"slices"
	"unsafe"

	"mm-abi.org/mm/core/graph/array"
	"mm-abi.org/mm/core/onnx"
	"mm-abi.org/mm/core/tensor"
)

// strided copies the elements of src that lie at offset + Σ index·stride, in
// row-major order of the shape, to dst. The caller has checked the bounds.
func (c *Call) strided(dst, src *Array, shape []int, offset int, stride []int) {
	if dst.Len() == 0 {
		return
	}
	w := merged(shape, stride)
	w.offset = offset
	switch array.Size(src.Type) {
	case 1:
		walk(c, &w, raws[uint8](dst), raws[uint8](src))
	case 2:
		walk(c, &w, raws[uint16](dst), raws[uint16](src))
	case 4:
		if w.turned >= 0 {
			c.turn(&w, array.Of[float32](dst), array.Of[float32](src))
			return
		}
		walk(c, &w, raws[uint32](dst), raws[uint32](src))
	default:
		walk(c, &w, raws[uint64](dst), raws[uint64](src))
	}
}

// raws are the elements as whole numbers of their size.
func raws[T uint8 | uint16 | uint32 | uint64](a *Array) []T { return array.Of[T](a) }

// journey is a walk over elements: shape and strides of the source, with no
// dimension of 1 and none that the next could hold as well.
type journey struct {
	rank          int
	shape, stride [array.MaxRank]int
	offset        int // where it begins
	turned        int // the outer dimension of stride 1, when the last is not; -1
}

func merged(shape, stride []int) journey {
	w := journey{turned: -1}
	for i, d := range shape {
		if d == 1 {
			continue
		}
		if k := w.rank - 1; k >= 0 && w.stride[k] == stride[i]*d {
			w.shape[k] *= d
			w.stride[k] = stride[i]
			continue
		}
		w.shape[w.rank], w.stride[w.rank] = d, stride[i]
		w.rank++
	}
	if w.rank == 0 {
		w.rank, w.shape[0], w.stride[0] = 1, 1, 1
	}
	for i := range w.rank - 1 {
		if w.stride[w.rank-1] != 1 && w.stride[i] == 1 {
			w.turned = i
		}
	}
	return w
}

// walk copies row by row of the last dimension.
func walk[T uint8 | uint16 | uint32 | uint64](c *Call, w *journey, dst, src []T) {
	last := w.rank - 1
	n, step := w.shape[last], w.stride[last]
	c.each(len(dst)/n, n, func(_, lo, hi int) {
		var index [array.MaxRank]int
		at := w.seek(&index, last, lo)
		for r := lo; r < hi; r++ {
			row := dst[r*n : (r+1)*n]
			switch step {
			case 1:
				copy(row, src[at:])
			case 0:
				v := src[at]
				for i := range row {
					row[i] = v
				}
			default:
				for i, p := 0, at; i < len(row); i, p = i+1, p+step {
					row[i] = src[p]
				}
			}
			at = w.next(&index, last, at)
		}
	})
}

// seek sets the indices of the first dimensions to those of row r, and gives
// where it begins.
func (w *journey) seek(index *[array.MaxRank]int, dims, r int) (at int) {
	at = w.offset
	for i := dims - 1; i >= 0; i-- {
		index[i] = r % w.shape[i]
		at += index[i] * w.stride[i]
		r /= w.shape[i]
	}
	return at
}

// next goes on by one row.
func (w *journey) next(index *[array.MaxRank]int, dims, at int) int {
	for i := dims - 1; i >= 0; i-- {
		index[i]++
		at += w.stride[i]
		if index[i] < w.shape[i] {
			return at
		}
		at -= index[i] * w.stride[i]
		index[i] = 0
	}
	return at
}

// turn transposes the planes of the last dimension and the one of stride 1.
func (c *Call) turn(w *journey, dst, src []float32) {
	t, last := w.turned, w.rank-1
	to := journey{rank: w.rank} // where things go
	size := 1
	for i := last; i >= 0; i-- {
		to.shape[i], to.stride[i] = w.shape[i], size
		size *= w.shape[i]
	}
	rows, cols, lds, ldd := w.shape[last], w.shape[t], w.stride[last], to.stride[t]
	if lds < cols { // rows of the source that overlap
		walk(c, w, unsigned(dst), unsigned(src))
		return
	}
	long, short := max(rows, cols), min(rows, cols)
	part := max(8, grain/short&^7)
	parts := (long + part - 1) / part
	from, into := journey{offset: w.offset}, journey{} // the dimensions besides
	for i := range w.rank {
		if i != t && i != last {
			from.shape[from.rank], from.stride[from.rank] = w.shape[i], w.stride[i]
			into.shape[into.rank], into.stride[into.rank] = w.shape[i], to.stride[i]
			from.rank++
			into.rank++
		}
	}
	c.each(len(dst)/(rows*cols)*parts, short*min(part, long), func(_, lo, hi int) {
		var index [array.MaxRank]int
		for r := lo; r < hi; r++ {
			k := r % parts * part
			n := min(part, long-k)
			s, d := from.seek(&index, from.rank, r/parts), into.seek(&index, into.rank, r/parts)
			if cols == long {
				tensor.Transpose(dst[d+k*ldd:], ldd, src[s+k:], lds, rows, n)
			} else {
				tensor.Transpose(dst[d+k:], ldd, src[s+k*lds:], lds, n, cols)
			}
		}
	})
}

// unsigned sees numbers as their bits.
func unsigned(x []float32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// copied makes an output of the given shape by strided.
func (c *Call) copied(i int, src *Array, shape []int, offset int, stride []int) error {
	out, err := c.result(i, src.Type, shape...)
	if err != nil {
		return err
	}
	c.strided(out, src, shape, offset, stride)
	return nil
}

// take makes an output of the elements of src by index; index -1 is fill,
// which is nil for zero.
func (c *Call) take(src *Array, shape []int, index func(i int) int, fill *Array) error {
	out, err := c.result(0, src.Type, shape...)
	if err != nil {
		return err
	}
	switch array.Size(src.Type) {
	case 1:
		pick(c, raws[uint8](out), raws[uint8](src), index, filling[uint8](fill))
	case 2:
		pick(c, raws[uint16](out), raws[uint16](src), index, filling[uint16](fill))
	case 4:
		pick(c, raws[uint32](out), raws[uint32](src), index, filling[uint32](fill))
	default:
		pick(c, raws[uint64](out), raws[uint64](src), index, filling[uint64](fill))
	}
	return nil
}

func filling[T uint8 | uint16 | uint32 | uint64](a *Array) (v T) {
	if a != nil && a.Len() > 0 {
		v = raws[T](a)[0]
	}
	return v
}

func pick[T any](c *Call, dst, src []T, index func(i int) int, fill T) {
	c.each(len(dst), 4, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			if k := index(i); k >= 0 {
				dst[i] = src[k]
			} else {
				dst[i] = fill
			}
		}
	})
}

// transpose permutes dimensions.
func transpose(c *Call) error {
	x := c.In[0]
	perm := c.ints("perm")
	if perm == nil {
		for i := x.Rank() - 1; i >= 0; i-- {
			perm = append(perm, i)
		}
	}
	if sorted, err := allAxes(perm, x.Rank()); err != nil || len(sorted) != x.Rank() {
		return fmt.Errorf("perm %v of %d dimensions", perm, x.Rank())
	}
	own := strides(x.Shape)
	shape, stride := make([]int, len(perm)), make([]int, len(perm))
	for i, p := range perm {
		p, _ = axis(p, x.Rank())
		shape[i], stride[i] = x.Shape[p], own[p]
	}
	return c.copied(0, x, shape, 0, stride)
}

// expand broadcasts to a shape.
func expand(c *Call) error {
	want, err := c.integers(1)
	if err != nil {
		return err
	}
	for _, d := range want {
		if d < 0 {
			return fmt.Errorf("the shape %v has a negative dimension", want)
		}
	}
	shape, err := broadcast(c.In[0].Shape, want)
	if err != nil {
		return err
	}
	return c.copied(0, c.In[0], shape, 0, stretch(c.In[0].Shape, shape))
}

// where chooses between two arrays.
func where(c *Call) error {
	cond, x, y := c.In[0], c.In[1], c.In[2]
	if cond.Type != onnx.BOOL || x.Type != y.Type {
		return fmt.Errorf("a choice by %s between %s and %s", cond.Type, x.Type, y.Type)
	}
	shape, err := broadcast(cond.Shape, x.Shape, y.Shape)
	if err != nil {
		return err
	}
	out, err := c.result(0, x.Type, shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	sc, sx, sy := stretch(cond.Shape, shape), stretch(x.Shape, shape), stretch(y.Shape, shape)
	size := array.Size(x.Type)
	cb, xb, yb, ob := array.Of[bool](cond), x.Bytes(), y.Bytes(), out.Bytes()
	c.each(out.Len(), 4, func(_, lo, hi int) {
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

// concat joins along an axis.
func concat(c *Call) error {
	first := c.In[0]
	along, err := axis(c.int("axis", 1), first.Rank())
	if err != nil {
		return err
	}
	shape := append([]int(nil), first.Shape...)
	shape[along] = 0
	for i, a := range c.In {
		if a == nil || a.Type != first.Type || a.Rank() != first.Rank() {
			return fmt.Errorf("input %d has another type or rank than the first", i)
		}
		for k, d := range a.Shape {
			if k != along && d != shape[k] {
				return fmt.Errorf("input %d is %v, the first %v", i, a.Shape, first.Shape)
			}
		}
		shape[along] += a.Shape[along]
	}
	out, err := c.result(0, first.Type, shape...)
	if err != nil || out.Len() == 0 {
		return err
	}
	inner := product(shape[along+1:]) * array.Size(first.Type)
	outer, row, at, ob := product(shape[:along]), shape[along]*inner, 0, out.Bytes()
	for _, a := range c.In {
		n, b := a.Shape[along]*inner, a.Bytes()
		for r := range outer {
			copy(ob[r*row+at:r*row+at+n], b[r*n:])
		}
		at += n
	}
	return nil
}

// split cuts along an axis.
func split(c *Call) error {
	x := c.In[0]
	along, err := axis(c.int("axis", 0), x.Rank())
	if err != nil {
		return err
	}
	parts, err := c.axes("split", 1, 13)
	if err != nil {
		return err
	}
	if parts == nil {
		n, d := len(c.Out), x.Shape[along]
		each := (d + n - 1) / n
		if c.Opset < 18 && d%n != 0 {
			return fmt.Errorf("%d elements do not split into %d", d, n)
		}
		for i := range n {
			parts = append(parts, max(0, min(each, d-i*each)))
		}
	}
	sum := 0
	for _, p := range parts {
		if p < 0 || p > x.Shape[along] {
			return fmt.Errorf("a split into %v", parts)
		}
		sum += p
	}
	if len(parts) != len(c.Out) || sum != x.Shape[along] {
		return fmt.Errorf("%v of %d elements into %d outputs", parts, x.Shape[along], len(c.Out))
	}
	own, at := strides(x.Shape), 0
	for i, p := range parts {
		shape := append([]int(nil), x.Shape...)
		shape[along] = p
		if err := c.copied(i, x, shape, at*own[along], own); err != nil {
			return err
		}
		at += p
	}
	return nil
}

// slice takes ranges of some axes.
func slice(c *Call) error {
	x := c.In[0]
	var starts, ends, axes, steps []int
	if c.Opset < 10 {
		starts, ends, axes = c.ints("starts"), c.ints("ends"), c.ints("axes")
	} else {
		for i, to := range []*[]int{&starts, &ends, &axes, &steps} {
			list, err := c.integers(i + 1)
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
		return fmt.Errorf("%d starts, %d ends, %d axes, %d steps", len(starts), len(ends), len(axes), len(steps))
	}
	if _, err := allAxes(axes, x.Rank()); err != nil {
		return err
	}
	shape, stride, offset := append([]int(nil), x.Shape...), strides(x.Shape), 0
	own := strides(x.Shape)
	for i, k := range axes {
		k, _ = axis(k, x.Rank())
		step, d := 1, x.Shape[k]
		if steps != nil {
			step = steps[i]
		}
		if step == 0 {
			return fmt.Errorf("a step of 0")
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
		offset += lo * own[k]
		stride[k] = step * own[k]
	}
	return c.copied(0, x, shape, offset, stride)
}

// tile repeats each dimension.
func tile(c *Call) error {
	x := c.In[0]
	times, err := c.integers(1)
	if err != nil || len(times) != x.Rank() {
		return fmt.Errorf("repeats %v of %d dimensions: %v", times, x.Rank(), err)
	}
	shape := make([]int, x.Rank())
	for i, d := range x.Shape {
		if times[i] < 0 {
			return fmt.Errorf("repeats %v", times)
		}
		shape[i] = d * times[i]
	}
	if _, err := array.Count(shape); err != nil {
		return err
	}
	own := strides(x.Shape)
	return c.take(x, shape, func(i int) int {
		at := 0
		for k := len(shape) - 1; k >= 0; k-- {
			at += i % shape[k] % x.Shape[k] * own[k]
			i /= shape[k]
		}
		return at
	}, nil)
}

// pad adds elements at the ends of each dimension, or takes some away.
func pad(c *Call) error {
	x, mode := c.In[0], c.text("mode", "constant")
	pads, err := c.axes("pads", 1, 11)
	if err != nil {
		return err
	}
	fill := c.input(2)
	if c.Opset < 11 {
		if v := c.float("value", 0); v != 0 && x.Type == onnx.FLOAT {
			if fill, err = c.Arena.New(onnx.FLOAT); err != nil {
				return err
			}
			defer c.Arena.Release(fill)
			array.Of[float32](fill)[0] = v
		}
	}
	if fill != nil && (fill.Type != x.Type || fill.Len() != 1) {
		return fmt.Errorf("the value is no single %s", x.Type)
	}
	axes, err := c.integers(3)
	if err != nil {
		return err
	}
	before, after, err := spread(pads, axes, x.Rank())
	if err != nil {
		return err
	}
	shape, own := make([]int, x.Rank()), strides(x.Shape)
	for i, d := range x.Shape {
		shape[i] = before[i] + d + after[i]
		if most := max(before[i], after[i]); mode != "constant" && mode != "wrap" && (most > 0 && d == 0 || mode == "reflect" && most > 0 && most > d-1) {
			return fmt.Errorf("%s by %d of %d elements", mode, most, d)
		}
		if mode == "wrap" && d == 0 && shape[i] > 0 {
			return fmt.Errorf("wrap of nothing")
		}
	}
	if _, err := array.Count(shape); err != nil {
		return err
	}
	if mode == "constant" && (len(before) == 0 || slices.Min(before) >= 0 && slices.Min(after) >= 0) {
		return c.framed(x, shape, before, fill)
	}
	return c.take(x, shape, func(i int) int {
		at := 0
		for k := len(shape) - 1; k >= 0; k-- {
			v, d := i%shape[k]-before[k], x.Shape[k]
			i /= shape[k]
			if v < 0 || v >= d {
				if v = outside(mode, v, d); v < 0 {
					return -1
				}
			}
			at += v * own[k]
		}
		return at
	}, fill)
}

// framed puts an array into one of another shape, in the midst of fill.
func (c *Call) framed(x *Array, shape, before []int, fill *Array) error {
	out, err := c.result(0, x.Type, shape...)
	if err != nil {
		return err
	}
	size, o, b := array.Size(x.Type), out.Bytes(), x.Bytes()
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
	last, own := len(shape)-1, strides(shape)
	row := x.Shape[last] * size
	for r := range len(b) / row {
		at := before[last]
		for k, i := last-1, r; k >= 0; k-- {
			at += (i%x.Shape[k] + before[k]) * own[k]
			i /= x.Shape[k]
		}
		copy(o[at*size:at*size+row], b[r*row:])
	}
	return nil
}

// outside is which element stands for one beyond the ends; -1 for none.
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

// spread gives each dimension its pads.
func spread(pads, axes []int, rank int) (before, after []int, err error) {
	if axes == nil {
		for i := range rank {
			axes = append(axes, i)
		}
	}
	if len(pads) != 2*len(axes) {
		return nil, nil, fmt.Errorf("%d pads for %d axes", len(pads), len(axes))
	}
	if _, err := allAxes(axes, rank); err != nil {
		return nil, nil, err
	}
	before, after = make([]int, rank), make([]int, rank)
	for i, k := range axes {
		k, _ = axis(k, rank)
		before[k], after[k] = pads[i], pads[i+len(axes)]
	}
	return before, after, nil
}

// depthToSpace and spaceToDepth move blocks between channels and area.
func depthToSpace(c *Call) error {
	x, b := c.In[0], c.int("blocksize", 0)
	if x.Rank() != 4 || b < 1 || b > 1<<15 || x.Shape[1]%(b*b) != 0 {
		return fmt.Errorf("blocks of %d from %v", b, x.Shape)
	}
	n, ch, h, w := x.Shape[0], x.Shape[1]/(b*b), x.Shape[2], x.Shape[3]
	split, perm := []int{n, b, b, ch, h, w}, []int{0, 3, 4, 1, 5, 2}
	if c.text("mode", "DCR") == "CRD" {
		split, perm = []int{n, ch, b, b, h, w}, []int{0, 1, 4, 2, 5, 3}
	}
	return c.regroup(x, split, perm, []int{n, ch, h * b, w * b})
}

func spaceToDepth(c *Call) error {
	x, b := c.In[0], c.int("blocksize", 0)
	if x.Rank() != 4 || b < 1 || b > 1<<15 || x.Shape[2]%b != 0 || x.Shape[3]%b != 0 {
		return fmt.Errorf("blocks of %d from %v", b, x.Shape)
	}
	n, ch, h, w := x.Shape[0], x.Shape[1], x.Shape[2]/b, x.Shape[3]/b
	return c.regroup(x, []int{n, ch, h, b, w, b}, []int{0, 3, 5, 1, 2, 4}, []int{n, ch * b * b, h, w})
}

// regroup splits dimensions, permutes them and joins them again.
func (c *Call) regroup(x *Array, split, perm, joined []int) error {
	own := strides(split)
	shape, stride := make([]int, len(perm)), make([]int, len(perm))
	for i, p := range perm {
		shape[i], stride[i] = split[p], own[p]
	}
	out, err := c.result(0, x.Type, joined...)
	if err != nil {
		return err
	}
	c.strided(out, x, shape, 0, stride)
	return nil
}

// reverse turns sequences of different lengths round.
func reverse(c *Call) error {
	x := c.In[0]
	batch, time := c.int("batch_axis", 1), c.int("time_axis", 0)
	lens, err := c.integers(1)
	if err != nil || x.Rank() < 2 || batch+time != 1 || batch*time != 0 || len(lens) != x.Shape[batch] {
		return fmt.Errorf("%d lengths for %v: %v", len(lens), x.Shape, err)
	}
	for _, n := range lens {
		if n < 0 || n > x.Shape[time] {
			return fmt.Errorf("the lengths %v of %v", lens, x.Shape)
		}
	}
	own := strides(x.Shape)
	return c.take(x, x.Shape, func(i int) int {
		b, t := i/own[batch]%x.Shape[batch], i/own[time]%x.Shape[time]
		if t < lens[b] {
			i += (lens[b] - 1 - 2*t) * own[time]
		}
		return i
	}, nil)
}

// triangle keeps the upper or lower triangle of matrices.
func triangle(c *Call) error {
	x, k := c.In[0], 0
	if x.Rank() < 2 {
		return fmt.Errorf("a triangle of %v", x.Shape)
	}
	if a := c.input(1); a != nil {
		list, err := c.integers(1)
		if err != nil || len(list) != 1 {
			return fmt.Errorf("k is no single number: %v", err)
		}
		k = list[0]
	}
	rows, cols, upper := x.Dim(-2), x.Dim(-1), c.int("upper", 1) != 0
	return c.take(x, x.Shape, func(i int) int {
		if r, col := i/cols%rows, i%cols; upper && col-r >= k || !upper && col-r <= k {
			return i
		}
		return -1
	}, nil)
}
