package image

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// taps holds for each output of a dimension the inputs that it is a weighted
// sum of.
type taps struct {
	first   []int
	weights [][]float32
	outside []bool // positions that have the extrapolation value
}

// spreads reports whether a Resize computes more than two neighbors of each
// element, or crops.
func spreads(c *kernel.Call) bool {
	return c.Text("mode", "nearest") == "cubic" || c.Int("antialias", 0) != 0 || cropped(c)
}

func cropped(c *kernel.Call) bool {
	return c.Text("coordinate_transformation_mode", "") == "tf_crop_and_resize"
}

// filter returns the weight of an input at a distance, and the greatest
// distance of a weight other than zero.
func filter(c *kernel.Call) (weight func(x float64) float64, support float64) {
	if c.Text("mode", "nearest") == "linear" {
		return func(x float64) float64 { return max(0, 1-math.Abs(x)) }, 1
	}
	return keys(float64(c.Float("cubic_coeff_a", -0.75))), 2
}

// keys returns the cubic convolution kernel with a parameter.
func keys(a float64) func(x float64) float64 {
	return func(x float64) float64 {
		switch x = math.Abs(x); {
		case x <= 1:
			return ((a+2)*x-(a+3))*x*x + 1
		case x < 2:
			return a * (((x-5)*x+8)*x - 4)
		}
		return 0
	}
}

// crop returns the input coordinate of output i of a dimension by the region of
// interest.
func crop(roi []float32, k, i, from, to int) float64 {
	start, end := float64(roi[k]), float64(roi[len(roi)/2+k])
	if to > 1 {
		return start*float64(from-1) + float64(i)*(end-start)*float64(from-1)/float64(to-1)
	}
	return 0.5 * (start + end) * float64(from-1)
}

// tapsOf returns the weights of dimension k. Inputs outside of the array have
// the value at its border, or are left out.
func tapsOf(c *kernel.Call, k, from, to int, scale float64, roi []float32) taps {
	t := taps{make([]int, to), make([][]float32, to), make([]bool, to)}
	weight, support := filter(c)
	wide := 1.0
	if c.Int("antialias", 0) != 0 {
		wide = max(1, 1/scale)
	}
	exclude := c.Int("exclude_outside", 0) != 0
	for i := range to {
		v := float64(0)
		if roi != nil {
			v = crop(roi, k, i, from, to)
			t.outside[i] = !(v >= 0 && v <= float64(from-1))
		} else {
			v = origin(c, i, from, to, scale)
		}
		if v = min(max(v, -4), float64(from)+4); v != v {
			v = 0
		}
		lo, hi := int(math.Floor(v-support*wide))+1, int(math.Ceil(v+support*wide))-1
		low, high := max(lo, 0), min(hi, from-1)
		if low > high {
			low = min(low, from-1)
			high = low
		}
		list, sum := make([]float64, high-low+1), 0.0
		for p := lo; p <= hi; p++ {
			if exclude && (p < 0 || p >= from) {
				continue
			}
			w := weight((float64(p) - v) / wide)
			list[min(max(p, low), high)-low] += w
			sum += w
		}
		t.first[i], t.weights[i] = low, make([]float32, len(list))
		for j, w := range list {
			t.weights[i][j] = float32(w / sum)
		}
	}
	return t
}

// weighted computes Resize by weighted sums, one dimension after another, the
// last first.
func weighted(c *kernel.Call, x *kernel.Array, shape []int, factor []float64) error {
	if x.Type != onnx.FLOAT {
		return fmt.Errorf("type %s is not supported in mode %q with weights", x.Type, c.Text("mode", ""))
	}
	roi, err := region(c, x.Rank())
	if err != nil || roi != nil && c.Int("antialias", 0) != 0 {
		return fmt.Errorf("antialias of a region of interest is not supported: %v", err)
	}
	cur := x.View(x.Shape)
	defer func() { c.Arena.Release(cur) }()
	outside := make([][]bool, len(shape))
	for k := len(shape) - 1; k >= 0; k-- {
		d := shape[k]
		if d == cur.Shape[k] && factor[k] == 1 && roi == nil {
			continue
		}
		t := tapsOf(c, k, cur.Shape[k], d, factor[k], roi)
		outside[k] = t.outside
		to := append([]int(nil), cur.Shape...)
		to[k] = d
		out, err := c.Arena.Zeros(onnx.FLOAT, to...)
		if err != nil {
			return err
		}
		from, inner := cur.Shape[k], kernel.Product(cur.Shape[k+1:])
		src, dst := kernel.Elements[float32](cur), kernel.Elements[float32](out)
		if out.Len() > 0 {
			c.Each(len(dst)/inner, 4*inner, func(_, lo, hi int) {
				for r := lo; r < hi; r++ {
					i, base := r%d, r/d*from
					for j, w := range t.weights[i] {
						tensor.Axpy(dst[r*inner:(r+1)*inner], w, src[(base+t.first[i]+j)*inner:][:inner])
					}
				}
			})
		}
		c.Arena.Release(cur)
		cur = out
	}
	extrapolate(cur, outside, c.Float("extrapolation_value", 0))
	c.Out[0] = cur.View(cur.Shape)
	return nil
}

// region returns the starts and ends of the region of interest; nil unless the
// node crops.
func region(c *kernel.Call, rank int) ([]float32, error) {
	if !cropped(c) {
		return nil, nil
	}
	in, err := c.Floats(1)
	if err != nil {
		return nil, err
	}
	roi, axes := in[0], c.Ints("axes")
	if axes == nil {
		axes = kernel.Sequence(rank)
	}
	if len(roi) != 2*len(axes) {
		return nil, fmt.Errorf("region of interest: got %d numbers, want %d", len(roi), 2*len(axes))
	}
	all := make([]float32, 2*rank)
	for k := range rank {
		all[rank+k] = 1
	}
	for i, k := range axes {
		if k, err = kernel.Axis(k, rank); err != nil {
			return nil, err
		}
		all[k], all[rank+k] = roi[i], roi[len(axes)+i]
	}
	return all, nil
}

// extrapolate sets the elements with an outside position in any dimension.
func extrapolate(a *kernel.Array, outside [][]bool, value float32) {
	o, strides := kernel.Elements[float32](a), kernel.Strides(a.Shape)
	for k, list := range outside {
		for i, out := range list {
			for at := i * strides[k]; out && at < len(o); at += strides[k] * a.Shape[k] {
				for j := range strides[k] {
					o[at+j] = value
				}
			}
		}
	}
}
