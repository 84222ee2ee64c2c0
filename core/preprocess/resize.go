package preprocess

import (
	"fmt"
	"math"
)

// Resizing is Pillow's: a separable filter, widened by the scale when shrinking
// (antialiasing), first along rows, then along columns, with weights of 22 bits
// and 8-bit values between the passes. golang.org/x/image/draw widens its
// filters too, but keeps overshoots between the passes, which bicubic and
// Lanczos filters produce at every edge.

// kernel is a filter: its weight at a distance, and its reach.
type kernel struct {
	support float64
	at      func(x float64) float64
}

func kernelOf(name string) kernel {
	switch name {
	case "bicubic":
		return kernel{2, func(x float64) float64 { // Keys, a = −½
			const a = -0.5
			switch x = math.Abs(x); {
			case x < 1:
				return ((a+2)*x-(a+3))*x*x + 1
			case x < 2:
				return (((x-5)*x+8)*x - 4) * a
			}
			return 0
		}}
	case "lanczos":
		sinc := func(x float64) float64 {
			if x == 0 {
				return 1
			}
			return math.Sin(math.Pi*x) / (math.Pi * x)
		}
		return kernel{3, func(x float64) float64 {
			if x < -3 || x >= 3 {
				return 0
			}
			return sinc(x) * sinc(x/3)
		}}
	}
	return kernel{1, func(x float64) float64 { return max(0, 1-math.Abs(x)) }}
}

// weightBits is the precision of weights.
const weightBits = 22

// taps are the weights of one output over the inputs from first on.
type taps struct {
	first   int
	weights []int32
}

// tapsOf returns the weights for each of out outputs from in inputs.
func tapsOf(k kernel, in, out int) []taps {
	scale := float64(in) / float64(out)
	stretch := max(scale, 1)
	support := k.support * stretch
	all := make([]taps, out)
	weights := make([]float64, 0, int(math.Ceil(support))*2+1)
	for i := range all {
		center := (float64(i) + 0.5) * scale
		first := max(int(center-support+0.5), 0)
		last := min(int(center+support+0.5), in)
		weights = weights[:0]
		sum := 0.0
		for x := first; x < last; x++ {
			w := k.at((float64(x) - center + 0.5) / stretch)
			weights = append(weights, w)
			sum += w
		}
		t := taps{first: first, weights: make([]int32, len(weights))}
		for j, w := range weights {
			if sum != 0 {
				w /= sum
			}
			t.weights[j] = int32(math.Trunc(w*(1<<weightBits) + math.Copysign(0.5, w)))
		}
		all[i] = t
	}
	return all
}

// ResizeTo returns the image at another size.
func (r *Raster) ResizeTo(w, h int, resample string) (*Raster, error) {
	if err := within(w, h); err != nil {
		return nil, err
	}
	if err := within(w, r.H); err != nil {
		return nil, fmt.Errorf("resizing: %w", err)
	}
	if resample == "nearest" {
		return r.nearest(w, h), nil
	}
	k := kernelOf(resample)
	out := r
	if w != r.W {
		out = out.rows(tapsOf(k, r.W, w))
	}
	if h != r.H {
		out = out.columns(tapsOf(k, r.H, h))
	}
	return out, nil
}

func (r *Raster) rows(all []taps) *Raster {
	out := &Raster{W: len(all), H: r.H, C: r.C, Pix: make([]uint8, len(all)*r.H*r.C)}
	for y := range r.H {
		row := r.Pix[y*r.W*r.C:]
		to := out.Pix[y*out.W*r.C:]
		for x, t := range all {
			for c := range r.C {
				sum := int64(1) << (weightBits - 1)
				for j, w := range t.weights {
					sum += int64(w) * int64(row[(t.first+j)*r.C+c])
				}
				to[x*r.C+c] = clip(sum)
			}
		}
	}
	return out
}

func (r *Raster) columns(all []taps) *Raster {
	stride := r.W * r.C
	out := &Raster{W: r.W, H: len(all), C: r.C, Pix: make([]uint8, stride*len(all))}
	sums := make([]int64, stride)
	for y, t := range all {
		for i := range sums {
			sums[i] = 1 << (weightBits - 1)
		}
		for j, w := range t.weights {
			row := r.Pix[(t.first+j)*stride:][:stride]
			for i, v := range row {
				sums[i] += int64(w) * int64(v)
			}
		}
		for i, sum := range sums {
			out.Pix[y*stride+i] = clip(sum)
		}
	}
	return out
}

func clip(sum int64) uint8 { return uint8(min(max(sum>>weightBits, 0), 255)) }

func (r *Raster) nearest(w, h int) *Raster {
	out := &Raster{W: w, H: h, C: r.C, Pix: make([]uint8, w*h*r.C)}
	sx, sy := float64(r.W)/float64(w), float64(r.H)/float64(h)
	for y := range h {
		row := r.Pix[min(int((float64(y)+0.5)*sy), r.H-1)*r.W*r.C:]
		for x := range w {
			copy(out.Pix[(y*w+x)*r.C:][:r.C], row[min(int((float64(x)+0.5)*sx), r.W-1)*r.C:])
		}
	}
	return out
}

// cropTo returns the middle of the image; a side that is too short is padded
// with black on both sides, as in torchvision.
func (r *Raster) cropTo(w, h int, down bool) *Raster {
	out := &Raster{W: w, H: h, C: r.C, Pix: make([]uint8, w*h*r.C)}
	left, top := offset(r.W, w, down), offset(r.H, h, down)
	from, to := max(0, -left), min(w, r.W-left)
	for y := max(0, -top); y < min(h, r.H-top); y++ {
		copy(out.Pix[(y*w+from)*r.C:(y*w+to)*r.C], r.Pix[((y+top)*r.W+from+left)*r.C:])
	}
	return out
}

// offset returns the start of a crop of length want in have; negative if
// padding comes first. Halves are rounded down, or to even, as in torchvision.
func offset(have, want int, down bool) int {
	if down {
		return (have - want) >> 1
	}
	if want > have {
		return -((want - have) / 2)
	}
	return int(math.RoundToEven(float64(have-want) / 2))
}
