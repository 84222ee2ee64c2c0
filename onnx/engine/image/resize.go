package image

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/conv"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// resize computes Resize and Upsample.
func resize(c *kernel.Call) error {
	x := c.In[0]
	shape, factor, err := resized(c, x.Shape)
	if err != nil {
		return err
	}
	n, err := kernel.Count(shape)
	if err != nil || n > 0 && x.Len() == 0 {
		return fmt.Errorf("resizing %v to %v: %v", x.Shape, shape, err)
	}
	if n == 0 {
		_, err := c.Result(0, x.Type, shape...)
		return err
	}
	if c.Text("mode", "nearest") == "nearest" {
		return nearest(c, x, shape, factor)
	}
	if spreads(c) {
		return weighted(c, x, shape, factor)
	}
	return linear(c, x, shape, factor)
}

// resized returns the shape of the output and the scale of each dimension.
func resized(c *kernel.Call, from []int) (shape []int, factor []float64, err error) {
	scales, sizes, err := factors(c)
	if err != nil {
		return nil, nil, err
	}
	roi, err := region(c, len(from))
	if err != nil {
		return nil, nil, err
	}
	axes := c.Ints("axes")
	if axes == nil {
		axes = kernel.Sequence(len(from))
	}
	if _, err := kernel.AllAxes(axes, len(from)); err != nil {
		return nil, nil, err
	}
	shape, factor = append([]int(nil), from...), make([]float64, len(from))
	for i := range factor {
		factor[i] = 1
	}
	for i, k := range axes {
		k, _ = kernel.Axis(k, len(from))
		switch {
		case len(sizes) == len(axes):
			shape[k] = sizes[i]
			factor[k] = float64(sizes[i]) / float64(from[k])
		case len(scales) == len(axes):
			factor[k] = float64(scales[i])
			v := math.Floor(float64(from[k]) * factor[k])
			if roi != nil { // ONNX Runtime ignores the region in the size, against the definition
				return nil, nil, fmt.Errorf("tf_crop_and_resize with scales is not supported, want sizes")
			}
			if !(factor[k] > 0 && v >= 0 && v <= math.MaxInt32) {
				return nil, nil, fmt.Errorf("bad scales %v", scales)
			}
			shape[k] = int(v)
		default:
			return nil, nil, fmt.Errorf("length mismatch: %d scales and %d sizes for %d axes", len(scales), len(sizes), len(axes))
		}
	}
	if len(sizes) > 0 {
		policy(c, from, shape, factor, axes)
	}
	return shape, factor, nil
}

// factors reads scales and sizes as defined in each opset.
func factors(c *kernel.Call) (scales []float32, sizes []int, err error) {
	at := 2
	switch {
	case c.Node.Op == "Upsample" && c.Opset < 9:
		if a := c.Attribute("scales"); a != nil {
			scales = a.Floats
		}
		return scales, nil, nil
	case c.Node.Op == "Upsample" || c.Opset < 11:
		at = 1
	}
	if a := c.Input(at); a != nil && a.Len() > 0 {
		list, err := c.Floats(at)
		if err != nil {
			return nil, nil, err
		}
		scales = list[0]
	}
	sizes, err = c.Integers(3)
	if len(sizes) > 0 && len(scales) > 0 {
		return nil, nil, fmt.Errorf("both scales and sizes are set")
	}
	return scales, sizes, err
}

// policy sets all scales to one value, for sizes that are only bounds.
func policy(c *kernel.Call, from, shape []int, factor []float64, axes []int) {
	how := c.Text("keep_aspect_ratio_policy", "stretch")
	if how == "stretch" {
		return
	}
	scale := math.NaN()
	for _, k := range axes {
		k, _ = kernel.Axis(k, len(from))
		if math.IsNaN(scale) || how == "not_larger" && factor[k] < scale || how == "not_smaller" && factor[k] > scale {
			scale = factor[k]
		}
	}
	for _, k := range axes {
		k, _ = kernel.Axis(k, len(from))
		shape[k] = int(math.Floor(float64(from[k])*scale + 0.5))
		factor[k] = scale
	}
}

// origin maps an output coordinate to the input.
func origin(c *kernel.Call, i, from, to int, scale float64) float64 {
	mode := c.Text("coordinate_transformation_mode", "half_pixel")
	if c.Node.Op == "Upsample" || c.Opset < 11 {
		mode = "asymmetric"
	}
	x, wide := float64(i), scale*float64(from) // the output's size before rounding
	switch mode {
	case "asymmetric":
		return x / scale
	case "align_corners":
		if wide == 1 {
			return 0
		}
		return x * float64(from-1) / (wide - 1)
	case "pytorch_half_pixel":
		if to == 1 {
			return 0
		}
	case "half_pixel_symmetric":
		adjust := float64(to) / wide
		return float64(from)/2*(1-adjust) + (x+0.5)/scale - 0.5
	}
	return (x+0.5)/scale - 0.5
}

// nearestTo rounds an input coordinate of a dimension.
func nearestTo(c *kernel.Call, v float64, from int) int {
	mode := c.Text("nearest_mode", "round_prefer_floor")
	if c.Node.Op == "Upsample" || c.Opset < 11 {
		mode = "floor"
	}
	switch mode {
	case "floor":
		v = math.Floor(v)
	case "ceil":
		v = math.Ceil(v)
	case "round_prefer_ceil":
		v = math.Floor(v + 0.5)
	default:
		v = math.Ceil(v - 0.5)
	}
	return min(max(int(min(v, 1<<40)), 0), from-1)
}

// beyond returns the extrapolation value as an array; nil for zero.
func beyond(c *kernel.Call, kind onnx.DType) (*kernel.Array, error) {
	v := c.Float("extrapolation_value", 0)
	if v == 0 {
		return nil, nil
	}
	one, err := c.Arena.New(onnx.FLOAT)
	if err != nil {
		return nil, err
	}
	defer c.Arena.Release(one)
	kernel.Elements[float32](one)[0] = v
	return c.Cast(one, kind)
}

// between holds the two input coordinates around each output of a dimension,
// and its relative distance from the first.
type between struct {
	lo, hi []int
	part   []float32
}

func betweenOf(c *kernel.Call, from, to int, scale float64) between {
	b := between{make([]int, to), make([]int, to), make([]float32, to)}
	for i := range to {
		v := min(max(origin(c, i, from, to, scale), 0), float64(from-1))
		b.lo[i] = int(v)
		b.hi[i] = min(b.lo[i]+1, from-1)
		b.part[i] = float32(v - float64(b.lo[i]))
	}
	return b
}

// mix sets o = p·(1-t) + q·t.
func mix(o, p, q []float32, t float32) {
	p, q = p[:len(o)], q[:len(o)]
	if t == 0 {
		copy(o, p)
		return
	}
	tensor.TimesBy(o, p, 1-t)
	tensor.Axpy(o, t, q)
}

func nearest(c *kernel.Call, x *kernel.Array, shape []int, factor []float64) error {
	strides, at := kernel.Strides(x.Shape), make([][]int, len(shape))
	roi, err := region(c, x.Rank())
	if err != nil {
		return err
	}
	for k, d := range shape {
		at[k] = make([]int, d)
		for i := range d {
			v := origin(c, i, x.Shape[k], d, factor[k])
			if roi != nil {
				if v = crop(roi, k, i, x.Shape[k], d); !(v >= 0 && v <= float64(x.Shape[k]-1)) {
					at[k][i] = -1
					continue
				}
			}
			at[k][i] = nearestTo(c, v, x.Shape[k]) * strides[k]
		}
	}
	fill, err := beyond(c, x.Type)
	if err != nil {
		return err
	}
	defer c.Arena.Release(fill)
	return c.Take(x, shape, func(i int) int {
		from := 0
		for k := len(shape) - 1; k >= 0; k-- {
			if at[k][i%shape[k]] < 0 {
				return -1
			}
			from += at[k][i%shape[k]]
			i /= shape[k]
		}
		return from
	}, fill)
}

// linear interpolates one dimension after another, the last first: its elements
// one by one, the others by rows.
func linear(c *kernel.Call, x *kernel.Array, shape []int, factor []float64) error {
	if _, err := c.Floats(0); err != nil {
		return err
	}
	cur := x.View(x.Shape)
	for k := len(shape) - 1; k >= 0; k-- {
		d := shape[k]
		if d == cur.Shape[k] && factor[k] == 1 {
			continue
		}
		to := append([]int(nil), cur.Shape...)
		to[k] = d
		out, err := c.Arena.New(onnx.FLOAT, to...)
		if err != nil {
			c.Arena.Release(cur)
			return err
		}
		from, inner := cur.Shape[k], kernel.Product(cur.Shape[k+1:])
		src, dst := kernel.Elements[float32](cur), kernel.Elements[float32](out)
		b := betweenOf(c, from, d, factor[k])
		switch {
		case out.Len() == 0:
		case inner == 1:
			c.Each(len(dst)/d, d, func(_, lo, hi int) {
				for r := lo; r < hi; r++ {
					p, row := src[r*from:(r+1)*from], dst[r*d:(r+1)*d]
					for i := range row {
						v := p[b.lo[i]]
						row[i] = v + (p[b.hi[i]]-v)*b.part[i]
					}
				}
			})
		default:
			c.Each(len(dst)/inner, inner, func(_, lo, hi int) {
				for r := lo; r < hi; r++ {
					i, base := r%d, r/d*from
					mix(dst[r*inner:(r+1)*inner], src[(base+b.lo[i])*inner:], src[(base+b.hi[i])*inner:], b.part[i])
				}
			})
		}
		c.Arena.Release(cur)
		cur = out
	}
	c.Out[0] = cur
	return nil
}

// BlockedResize computes Resize of blocked images in rows and columns; the
// planner has verified that the other factors are one.
func BlockedResize(c *kernel.Call) error {
	x := c.In[0]
	size, err := conv.Spatial(x)
	if err != nil {
		return err
	}
	shape, factor, err := resized(c, append([]int{1, 1}, size...))
	if err != nil {
		return err
	}
	to := shape[2:]
	if shape[0] != 1 || shape[1] != 1 {
		return fmt.Errorf("batch and channels are scaled by %v", factor[:2])
	}
	lanes := conv.Kernels().Lanes()
	if _, err := kernel.Count(append(slices.Clone(to), x.Shape[0], x.Shape[1], lanes)); err != nil || x.Len() == 0 {
		return fmt.Errorf("resizing %v to %v: %v", x.Shape, to, err)
	}
	out, err := c.Result(0, onnx.FLOAT, append(append(slices.Clone(x.Shape[:2]), to...), lanes)...)
	if err != nil || out.Len() == 0 {
		return err
	}
	if len(size) == 1 { // one row
		size, to, factor = []int{1, size[0]}, []int{1, to[0]}, []float64{1, 1, 1, factor[2]}
	}
	xs, o := kernel.Elements[float32](x), kernel.Elements[float32](out)
	in, line := size[0]*size[1]*lanes, to[1]*lanes
	if c.Text("mode", "nearest") == "nearest" {
		rows, columns := make([]int, to[0]), make([]int, to[1])
		for i := range rows {
			rows[i] = nearestTo(c, origin(c, i, size[0], to[0], factor[2]), size[0])
		}
		for i := range columns {
			columns[i] = nearestTo(c, origin(c, i, size[1], to[1], factor[3]), size[1])
		}
		c.Each(len(o)/line, line, func(_, lo, hi int) {
			for r := lo; r < hi; r++ {
				y := r % to[0]
				row := o[r*line : (r+1)*line]
				if r > lo && y > 0 && rows[y] == rows[y-1] {
					copy(row, o[(r-1)*line:])
					continue
				}
				from := xs[r/to[0]*in+rows[y]*size[1]*lanes:][:size[1]*lanes]
				for i, p := range columns {
					copy(row[i*lanes:(i+1)*lanes], from[p*lanes:])
				}
			}
		})
		return nil
	}
	// First columns, into rows of the new width; each new row is between two of
	// these.
	wide, err := c.Arena.New(onnx.FLOAT, x.Shape[0]*x.Shape[1]*size[0], line)
	if err != nil {
		return err
	}
	defer c.Arena.Release(wide)
	ws := kernel.Elements[float32](wide)
	columns, rows := betweenOf(c, size[1], to[1], factor[3]), betweenOf(c, size[0], to[0], factor[2])
	c.Each(len(ws)/line, line, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			from := xs[r*size[1]*lanes:]
			for i := range to[1] {
				mix(ws[r*line+i*lanes:][:lanes], from[columns.lo[i]*lanes:], from[columns.hi[i]*lanes:], columns.part[i])
			}
		}
	})
	c.Each(len(o)/line, line, func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			y, base := r%to[0], r/to[0]*size[0]
			mix(o[r*line:(r+1)*line], ws[(base+rows.lo[y])*line:], ws[(base+rows.hi[y])*line:], rows.part[y])
		}
	})
	return nil
}
