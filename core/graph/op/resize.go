package op

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/graph/array"
	"mm-abi.org/mm/core/onnx"
)

// resize is Resize by nearest or linear interpolation, and Upsample.
func resize(c *Call) error {
	x := c.In[0]
	scales, sizes, err := c.factors()
	if err != nil {
		return err
	}
	axes := c.ints("axes")
	if axes == nil {
		axes = sequence(x.Rank())
	}
	if _, err := allAxes(axes, x.Rank()); err != nil {
		return err
	}
	shape, factor := append([]int(nil), x.Shape...), make([]float64, x.Rank())
	for i := range factor {
		factor[i] = 1
	}
	for i, k := range axes {
		k, _ = axis(k, x.Rank())
		switch {
		case len(sizes) == len(axes):
			shape[k] = sizes[i]
			factor[k] = float64(sizes[i]) / float64(x.Shape[k])
		case len(scales) == len(axes):
			factor[k] = float64(scales[i])
			v := math.Floor(float64(x.Shape[k]) * factor[k])
			if !(factor[k] > 0) || v > math.MaxInt32 {
				return fmt.Errorf("the scales %v", scales)
			}
			shape[k] = int(v)
		default:
			return fmt.Errorf("%d scales and %d sizes for %d axes", len(scales), len(sizes), len(axes))
		}
	}
	if len(sizes) > 0 {
		c.policy(x.Shape, shape, factor, axes)
	}
	n, err := array.Count(shape)
	if err != nil || n > 0 && x.Len() == 0 {
		return fmt.Errorf("%v to %v: %v", x.Shape, shape, err)
	}
	if c.text("mode", "nearest") == "nearest" {
		return c.nearest(x, shape, factor)
	}
	return c.linear(x, shape, factor)
}

// factors reads scales and sizes, where each opset has them.
func (c *Call) factors() (scales []float32, sizes []int, err error) {
	at := 2
	switch {
	case c.Node.Op == "Upsample" && c.Opset < 9:
		if a := c.attribute("scales"); a != nil {
			scales = a.Floats
		}
		return scales, nil, nil
	case c.Node.Op == "Upsample" || c.Opset < 11:
		at = 1
	}
	if a := c.input(at); a != nil && a.Len() > 0 {
		list, err := c.floats(at)
		if err != nil {
			return nil, nil, err
		}
		scales = list[0]
	}
	sizes, err = c.integers(3)
	if len(sizes) > 0 && len(scales) > 0 {
		return nil, nil, fmt.Errorf("scales and sizes")
	}
	return scales, sizes, err
}

// policy makes all scales one, for sizes that are only bounds.
func (c *Call) policy(from, shape []int, factor []float64, axes []int) {
	how := c.text("keep_aspect_ratio_policy", "stretch")
	if how == "stretch" {
		return
	}
	scale := math.NaN()
	for _, k := range axes {
		k, _ = axis(k, len(from))
		if math.IsNaN(scale) || how == "not_larger" && factor[k] < scale || how == "not_smaller" && factor[k] > scale {
			scale = factor[k]
		}
	}
	for _, k := range axes {
		k, _ = axis(k, len(from))
		shape[k] = int(math.Floor(float64(from[k])*scale + 0.5))
		factor[k] = scale
	}
}

// origin maps an output coordinate to the input.
func (c *Call) origin(i, from, to int, scale float64) float64 {
	mode := c.text("coordinate_transformation_mode", "half_pixel")
	if c.Node.Op == "Upsample" || c.Opset < 11 {
		mode = "asymmetric"
	}
	x, wide := float64(i), scale*float64(from) // the output's size before it is rounded
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

func (c *Call) nearest(x *Array, shape []int, factor []float64) error {
	mode := c.text("nearest_mode", "round_prefer_floor")
	if c.Node.Op == "Upsample" || c.Opset < 11 {
		mode = "floor"
	}
	own, at := strides(x.Shape), make([][]int, len(shape))
	for k, d := range shape {
		at[k] = make([]int, d)
		for i := range d {
			v := c.origin(i, x.Shape[k], d, factor[k])
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
			at[k][i] = min(max(int(min(v, 1<<40)), 0), x.Shape[k]-1) * own[k]
		}
	}
	return c.take(x, shape, func(i int) int {
		from := 0
		for k := len(shape) - 1; k >= 0; k-- {
			from += at[k][i%shape[k]]
			i /= shape[k]
		}
		return from
	}, nil)
}

// linear interpolates one dimension after the other.
func (c *Call) linear(x *Array, shape []int, factor []float64) error {
	if _, err := c.floats(0); err != nil {
		return err
	}
	cur := x.View(x.Shape)
	for k, d := range shape {
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
		from, inner := cur.Shape[k], product(cur.Shape[k+1:])
		src, dst := array.Of[float32](cur), array.Of[float32](out)
		lo, hi, part := make([]int, d), make([]int, d), make([]float32, d)
		for i := range d {
			v := min(max(c.origin(i, from, d, factor[k]), 0), float64(from-1))
			lo[i] = int(v)
			hi[i] = min(lo[i]+1, from-1)
			part[i] = float32(v - float64(lo[i]))
		}
		if inner > 0 {
			c.each(len(dst)/inner, inner, func(_, a, b int) {
				for r := a; r < b; r++ {
					i, base := r%d, r/d*from
					p, q, row := src[(base+lo[i])*inner:], src[(base+hi[i])*inner:], dst[r*inner:(r+1)*inner]
					for j := range row {
						row[j] = p[j] + (q[j]-p[j])*part[i]
					}
				}
			})
		}
		c.Arena.Release(cur)
		cur = out
	}
	c.Out[0] = cur
	return nil
}
