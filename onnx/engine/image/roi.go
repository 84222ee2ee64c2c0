package image

import (
	"fmt"
	"math"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// roiAlign computes RoiAlign: averages or maxima of samples in the bins of
// regions.
func roiAlign(c *kernel.Call) error {
	x, rois := c.In[0], c.In[1]
	if x.Rank() != 4 || rois.Rank() != 2 || rois.Shape[1] != 4 {
		return fmt.Errorf("shape mismatch: regions %v of %v", rois.Shape, x.Shape)
	}
	in, err := c.Floats(0, 1)
	if err != nil {
		return err
	}
	batch, err := c.Integers(2)
	if err != nil || len(batch) != rois.Shape[0] {
		return fmt.Errorf("got %d batch indices of %d regions: %v", len(batch), rois.Shape[0], err)
	}
	for _, b := range batch {
		if b < 0 || b >= x.Shape[0] {
			return fmt.Errorf("batch index %d out of range for %v", b, x.Shape)
		}
	}
	h, w, channels := c.Int("output_height", 1), c.Int("output_width", 1), x.Shape[1]
	if h < 1 || w < 1 || h > math.MaxInt32 || w > math.MaxInt32 {
		return fmt.Errorf("output of %d×%d is out of range", h, w)
	}
	mode, plane := c.Text("mode", "avg"), x.Shape[2]*x.Shape[3]
	if mode != "avg" && mode != "max" {
		return fmt.Errorf("mode %q is not supported", mode)
	}
	out, err := c.Result(0, onnx.FLOAT, rois.Shape[0], channels, h, w)
	if err != nil || out.Len() == 0 {
		return err
	}
	if plane == 0 {
		return fmt.Errorf("no pixels in %v", x.Shape)
	}
	o := kernel.Elements[float32](out)
	for n, b := range batch {
		r, err := regionOf(c, in[1][4*n:], h, w, x.Shape[2], x.Shape[3])
		if err != nil {
			return err
		}
		c.Each(h*w, 8*channels*r.rows*r.columns, func(_, lo, hi int) {
			for i := lo; i < hi; i++ {
				for ch := range channels {
					o[(n*channels+ch)*h*w+i] = r.bin(in[0][(b*channels+ch)*plane:], i/w, i%w, mode == "max")
				}
			}
		})
	}
	return nil
}

// roi is one region: its first corner, the size of a bin, and the samples in
// each.
type roi struct {
	y, x, binY, binX float32
	rows, columns    int
	height, width    int // of the image
}

func regionOf(c *kernel.Call, at []float32, h, w, height, width int) (*roi, error) {
	scale, offset := c.Float("spatial_scale", 1), float32(0.5)
	half := c.Opset >= 16 && c.Text("coordinate_transformation_mode", "half_pixel") == "half_pixel"
	if !half {
		offset = 0
	}
	r := &roi{y: at[1]*scale - offset, x: at[0]*scale - offset, height: height, width: width}
	tall, wide := at[3]*scale-offset-r.y, at[2]*scale-offset-r.x
	if !half {
		tall, wide = max(tall, 1), max(wide, 1)
	}
	r.binY, r.binX = tall/float32(h), wide/float32(w)
	r.rows, r.columns = c.Int("sampling_ratio", 0), c.Int("sampling_ratio", 0)
	if r.rows <= 0 {
		limit := 1 << 15
		if a, b := math.Ceil(float64(r.binY)), math.Ceil(float64(r.binX)); a >= 0 && b >= 0 && a < float64(limit) && b < float64(limit) {
			r.rows, r.columns = int(a), int(b)
		}
	}
	if r.rows < 0 || r.columns < 0 || r.rows >= 1<<15 || r.columns >= 1<<15 {
		return nil, fmt.Errorf("samples of a bin are out of range: %d×%d", r.rows, r.columns)
	}
	return r, nil
}

// bin returns the average or the greatest of the samples of a bin.
func (r *roi) bin(plane []float32, i, j int, most bool) float32 {
	sum, greatest := float32(0), float32(0)
	for p := range r.rows {
		y := r.y + float32(i)*r.binY + (float32(p)+0.5)*r.binY/float32(r.rows)
		for q := range r.columns {
			x := r.x + float32(j)*r.binX + (float32(q)+0.5)*r.binX/float32(r.columns)
			parts := r.sample(plane, y, x)
			sum += parts[0] + parts[1] + parts[2] + parts[3]
			if v := max(parts[0], parts[1], parts[2], parts[3]); p+q == 0 || v > greatest {
				greatest = v
			}
		}
	}
	if most {
		return greatest
	}
	return sum / float32(max(r.rows*r.columns, 1))
}

// sample returns the four weighted pixels around a position.
func (r *roi) sample(plane []float32, y, x float32) (parts [4]float32) {
	if !(y >= -1 && y <= float32(r.height) && x >= -1 && x <= float32(r.width)) {
		return parts
	}
	y0, y1, ty := around(y, r.height)
	x0, x1, tx := around(x, r.width)
	parts[0] = (1 - ty) * (1 - tx) * plane[y0*r.width+x0]
	parts[1] = (1 - ty) * tx * plane[y0*r.width+x1]
	parts[2] = ty * (1 - tx) * plane[y1*r.width+x0]
	parts[3] = ty * tx * plane[y1*r.width+x1]
	return parts
}

// around returns the pixels on both sides of a position, and its distance from
// the first.
func around(v float32, n int) (lo, hi int, part float32) {
	v = max(v, 0)
	if lo = int(v); lo >= n-1 {
		return n - 1, n - 1, 0
	}
	return lo, lo + 1, v - float32(lo)
}
