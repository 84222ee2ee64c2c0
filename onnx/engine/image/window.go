package image

import (
	"fmt"
	"math"

	"mm-abi.org/mm/onnx/engine/kernel"
)

// window describes the movement of a kernel over the last dimensions of its
// input, extended to three: depth, height and width.
type window struct {
	rank                        int
	in, out                     [3]int
	kernel, stride, dilation    [3]int
	before                      [3]int
	after                       [3]int
	inSize, outSize, kernelSize int
}

// windowOf reads the attributes of convolutions and pools. kernel may be nil if
// the attribute kernel_shape is set.
func windowOf(c *kernel.Call, spatial, kernel []int) (w window, err error) {
	w.rank = len(spatial)
	if w.rank < 1 || w.rank > 3 {
		return w, fmt.Errorf("windows of %d dimensions are not supported", w.rank)
	}
	if k := c.Ints("kernel_shape"); k != nil {
		if kernel != nil && fmt.Sprint(k) != fmt.Sprint(kernel) {
			return w, fmt.Errorf("kernel %v differs from kernel_shape %v", kernel, k)
		}
		kernel = k
	}
	strides, dilations, pads := c.Ints("strides"), c.Ints("dilations"), c.Ints("pads")
	if len(kernel) != w.rank || strides != nil && len(strides) != w.rank || dilations != nil && len(dilations) != w.rank || pads != nil && len(pads) != 2*w.rank {
		return w, fmt.Errorf("length mismatch: kernel %v, strides %v, dilations %v and pads %v over %v", kernel, strides, dilations, pads, spatial)
	}
	for i := range 3 {
		w.in[i], w.out[i], w.kernel[i], w.stride[i], w.dilation[i] = 1, 1, 1, 1, 1
	}
	for i, d := range spatial {
		k := 3 - w.rank + i
		w.in[k], w.kernel[k] = d, kernel[i]
		if strides != nil {
			w.stride[k] = strides[i]
		}
		if dilations != nil {
			w.dilation[k] = dilations[i]
		}
		if pads != nil {
			w.before[k], w.after[k] = pads[i], pads[i+w.rank]
		}
		for _, v := range []int{w.kernel[k], w.stride[k], w.dilation[k]} {
			if v < 1 || v > 1<<20 {
				return w, fmt.Errorf("out of range: kernel %v, strides %v, dilations %v", kernel, strides, dilations)
			}
		}
		if w.before[k] < 0 || w.after[k] < 0 || w.before[k] > 1<<20 || w.after[k] > 1<<20 {
			return w, fmt.Errorf("pads %v are not supported", pads)
		}
	}
	return w, nil
}

// slide computes the size of the output.
func slide(c *kernel.Call, w *window) error {
	auto, ceil := c.Text("auto_pad", "NOTSET"), c.Int("ceil_mode", 0) != 0
	for k := 3 - w.rank; k < 3; k++ {
		reach := (w.kernel[k]-1)*w.dilation[k] + 1
		switch auto {
		case "SAME_UPPER", "SAME_LOWER":
			w.out[k] = (w.in[k] + w.stride[k] - 1) / w.stride[k]
			total := max(0, (w.out[k]-1)*w.stride[k]+reach-w.in[k])
			w.before[k], w.after[k] = total/2, total-total/2
			if auto == "SAME_LOWER" {
				w.before[k], w.after[k] = w.after[k], w.before[k]
			}
			continue
		case "VALID":
			w.before[k], w.after[k] = 0, 0
		}
		room := w.in[k] + w.before[k] + w.after[k] - reach
		if room < 0 {
			return fmt.Errorf("window of %d exceeds %d elements", reach, w.in[k]+w.before[k]+w.after[k])
		}
		w.out[k] = room/w.stride[k] + 1
		if ceil && room%w.stride[k] != 0 && w.out[k]*w.stride[k] < w.in[k]+w.before[k] {
			w.out[k]++
		}
	}
	w.measure()
	return nil
}

func (w *window) measure() {
	w.inSize = w.in[0] * w.in[1] * w.in[2]
	w.outSize = w.out[0] * w.out[1] * w.out[2]
	w.kernelSize = w.kernel[0] * w.kernel[1] * w.kernel[2]
}

// outs returns the output's shape with the given first dimensions.
func (w *window) outs(first ...int) []int { return append(first, w.out[3-w.rank:]...) }

// sound reports an error if the sizes computed from w are too large.
func (w *window) sound(factor int) error {
	n := float64(factor) * float64(w.kernelSize) * float64(max(w.inSize, 1))
	if n > 1<<50 || float64(w.kernel[0])*float64(w.kernel[1])*float64(w.kernel[2]) > math.MaxInt32 {
		return fmt.Errorf("kernel %v over %v is too large", w.kernel, w.in)
	}
	return nil
}

// span returns the outputs [lo, hi) of a row for which kernel element k is
// within the input.
func (w *window) span(dim, k int) (lo, hi int) {
	off := k*w.dilation[dim] - w.before[dim]
	s := w.stride[dim]
	if off < 0 {
		lo = (-off + s - 1) / s
	}
	if last := w.in[dim] - 1 - off; last >= 0 {
		hi = last/s + 1
	}
	return min(lo, w.out[dim]), max(min(hi, w.out[dim]), min(lo, w.out[dim]))
}

// columns writes the elements of one channel under the kernel at the outputs
// [p0, p1): kernelSize rows of p1-p0, ld apart; zero for padding.
func columns[T kernel.Number](w *window, dst []T, ld int, x []T, p0, p1 int) {
	for k := range w.kernelSize {
		kd, kh, kw := k/(w.kernel[1]*w.kernel[2]), k/w.kernel[2]%w.kernel[1], k%w.kernel[2]
		lo, hi := w.span(2, kw)
		row := dst[k*ld : k*ld+p1-p0]
		for p := p0; p < p1; {
			od, oh, ow := p/(w.out[1]*w.out[2]), p/w.out[2]%w.out[1], p%w.out[2]
			end := min(p1, p-ow+w.out[2])
			seg := row[p-p0 : end-p0]
			p = end
			id, ih := od*w.stride[0]+kd*w.dilation[0]-w.before[0], oh*w.stride[1]+kh*w.dilation[1]-w.before[1]
			if id < 0 || id >= w.in[0] || ih < 0 || ih >= w.in[1] {
				clear(seg)
				continue
			}
			line := x[(id*w.in[1]+ih)*w.in[2]:][:w.in[2]]
			a, b := min(max(lo-ow, 0), len(seg)), min(max(hi-ow, 0), len(seg))
			clear(seg[:a])
			clear(seg[max(a, b):])
			if a >= b {
				continue
			}
			at := (ow+a)*w.stride[2] + kw*w.dilation[2] - w.before[2]
			if w.stride[2] == 1 {
				copy(seg[a:b], line[at:])
				continue
			}
			for i := a; i < b; i++ {
				seg[i] = line[at]
				at += w.stride[2]
			}
		}
	}
}
