package image

import (
	"fmt"
	"math"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// sampler reads images at fractional positions.
type sampler struct {
	size    []int // of each spatial dimension
	strides []int
	corners bool   // -1 and 1 are the centers of the border's pixels
	padding string // zeros, border or reflection
	taps    int    // neighbors in each dimension: 1, 2 or 4
}

// gridSample computes GridSample: for each position of a grid a weighted sum of
// the pixels around it.
func gridSample(c *kernel.Call) error {
	x, grid := c.In[0], c.In[1]
	r := x.Rank() - 2
	s := &sampler{corners: c.Int("align_corners", 0) != 0, padding: c.Text("padding_mode", "zeros")}
	s.taps = map[string]int{"nearest": 1, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}[c.Text("mode", "linear")]
	if s.taps == 0 || s.padding != "zeros" && s.padding != "border" && s.padding != "reflection" {
		return fmt.Errorf("mode %q with padding %q is not supported", c.Text("mode", ""), s.padding)
	}
	if r < 1 || r > 3 || s.taps == 4 && r != 2 || grid.Rank() != r+2 || grid.Dim(-1) != r || grid.Shape[0] != x.Shape[0] {
		return fmt.Errorf("shape mismatch: grid %v for %v", grid.Shape, x.Shape)
	}
	xs, err := c.Doubles(0)
	if err != nil {
		return err
	}
	at, err := c.Doubles(1)
	if err != nil {
		return err
	}
	s.size, s.strides = x.Shape[2:], kernel.Strides(x.Shape[2:])
	shape := append([]int{x.Shape[0], x.Shape[1]}, grid.Shape[1:r+1]...)
	out, err := c.Arena.Zeros(onnx.DOUBLE, shape...)
	if err != nil {
		return err
	}
	defer c.Arena.Release(out)
	plane, points, channels := kernel.Product(s.size), kernel.Product(shape[2:]), x.Shape[1]
	if plane > 0 {
		c.Each(x.Shape[0]*points, 32*channels, func(_, lo, hi int) {
			for i := lo; i < hi; i++ {
				n, p := i/points, i%points
				s.read(at[i*r:(i+1)*r], func(k int, w float64) {
					for ch := range channels {
						kernel.Elements[float64](out)[(n*channels+ch)*points+p] += w * xs[(n*channels+ch)*plane+k]
					}
				})
			}
		})
	}
	c.Out[0], err = c.Cast(out, x.Type)
	return err
}

// read calls f with the pixels around a position, of which the last dimension
// is first, and their weights.
func (s *sampler) read(at []float64, f func(k int, w float64)) {
	var first [3]int
	var weights [3][4]float64
	r := len(s.size)
	for d, n := range s.size {
		v := s.place(at[r-1-d], n)
		first[d], weights[d] = s.neighbors(v)
	}
	count := 1
	for range r {
		count *= s.taps
	}
	for t := range count {
		k, w, rest := 0, 1.0, t
		for d := r - 1; d >= 0; d-- {
			j := rest % s.taps
			rest /= s.taps
			p := s.inside(first[d]+j, s.size[d])
			if w *= weights[d][j]; p < 0 {
				w = 0
			}
			k += max(p, 0) * s.strides[d]
		}
		if w != 0 {
			f(k, w)
		}
	}
}

// bounds returns the least and the greatest position within n pixels.
func (s *sampler) bounds(n int) (lo, hi float64) {
	if s.corners {
		return 0, float64(n - 1)
	}
	return -0.5, float64(n) - 0.5
}

// place returns the position of a coordinate within n pixels.
func (s *sampler) place(at float64, n int) float64 {
	v := ((at+1)*float64(n) - 1) / 2
	if s.corners {
		v = (at + 1) / 2 * float64(n-1)
	}
	if s.taps == 1 {
		v = math.RoundToEven(v)
	}
	lo, hi := s.bounds(n)
	switch {
	case !(math.Abs(v) < 1<<40): // also NaN
		return -1 << 40
	case v >= lo && v <= hi || s.padding == "zeros" || s.taps == 4: // each pixel is placed
	case s.padding == "border":
		v = min(max(v, 0), float64(n-1))
	default:
		v = reflect(v, lo, hi)
	}
	return v
}

// neighbors returns the first pixel around a position and the weights.
func (s *sampler) neighbors(v float64) (first int, w [4]float64) {
	floor := math.Floor(v)
	switch t := v - floor; s.taps {
	case 1:
		return int(math.RoundToEven(v)), [4]float64{1}
	case 2:
		return int(floor), [4]float64{1 - t, t}
	default:
		k := keys(-0.75)
		return int(floor) - 1, [4]float64{k(t + 1), k(t), k(1 - t), k(2 - t)}
	}
}

// inside returns the pixel that is read for p of n; -1 for none.
func (s *sampler) inside(p, n int) int {
	switch {
	case p >= 0 && p < n:
		return p
	case s.padding == "zeros":
		return -1
	case s.padding == "border":
		return min(max(p, 0), n-1)
	}
	lo, hi := s.bounds(n)
	return min(max(int(reflect(float64(p), lo, hi)), 0), n-1)
}

// reflect mirrors a position at the borders until it is within them.
func reflect(v, lo, hi float64) float64 {
	width := hi - lo
	if width <= 0 {
		return lo
	}
	d := math.Mod(v-lo, 2*width)
	if d < 0 {
		d += 2 * width
	}
	return lo + min(d, 2*width-d)
}

// affineGrid computes AffineGrid: the positions of a regular grid under a linear
// map of each image.
func affineGrid(c *kernel.Call) error {
	size, err := c.Integers(1)
	if err != nil {
		return err
	}
	r := len(size) - 2
	if r != 2 && r != 3 || len(c.In[0].Shape) != 3 || c.In[0].Shape[0] != size[0] || c.In[0].Shape[1] != r || c.In[0].Shape[2] != r+1 {
		return fmt.Errorf("shape mismatch: maps %v for images of %v", c.In[0].Shape, size)
	}
	theta, err := c.Doubles(0)
	if err != nil {
		return err
	}
	shape := append(append([]int{size[0]}, size[2:]...), r)
	out, err := c.Arena.New(onnx.DOUBLE, shape...)
	if err != nil {
		return err
	}
	defer c.Arena.Release(out)
	o, points := kernel.Elements[float64](out), kernel.Product(size[2:])
	for i := range len(o) / r {
		m, p, at := theta[i/points*r*(r+1):], i%points, [3]float64{}
		for d := r - 1; d >= 0; d-- { // the last dimension is first
			n := float64(size[2+d])
			k := float64(p % size[2+d])
			p /= size[2+d]
			v := (2*k + 1 - n) / n
			if c.Int("align_corners", 0) != 0 {
				v = -1 + 2*k/max(n-1, 1)
			}
			at[r-1-d] = v
		}
		for j := range r {
			v := m[j*(r+1)+r]
			for k := range r {
				v += m[j*(r+1)+k] * at[k]
			}
			o[i*r+j] = v
		}
	}
	c.Out[0], err = c.Cast(out, c.In[0].Type)
	return err
}
