package nn

import (
	"mm-abi.org/mm/core/tensor"
)

// Geometry describes windows of KH×KW pixels over an image of H×W pixels with C
// channels, with strides SH and SW and PH and PW rows and columns of zero
// padding.
type Geometry struct {
	H, W, C        int
	KH, KW, SH, SW int
	PH, PW         int
}

// OH returns the number of windows from top to bottom, below 1 if none fits.
func (g Geometry) OH() int { return extent(g.H, g.KH, g.SH, g.PH) }

// OW returns the number of windows from left to right, below 1 if none fits.
func (g Geometry) OW() int { return extent(g.W, g.KW, g.SW, g.PW) }

func extent(n, kernel, stride, pad int) int {
	if n+2*pad < kernel {
		return 0
	}
	return (n+2*pad-kernel)/stride + 1
}

// span returns the part of a window's row inside the image: the window's
// columns [from, to), the first of which is the image's column at.
func (g Geometry) span(ox int) (from, to, at int) {
	left := ox*g.SW - g.PW
	from, to = max(0, -left), min(g.KW, g.W-left)
	return from, max(from, to), left + from
}

// windows iterates over outputs in order.
type windows struct {
	Geometry
	ow, oy, ox   int
	from, to, at int // span of the output's window
}

// windows returns an iterator that starts at output o.
func (g Geometry) windows(o int) windows {
	w := windows{Geometry: g, ow: g.OW()}
	w.oy, w.ox = o/w.ow, o%w.ow
	w.from, w.to, w.at = g.span(w.ox)
	return w
}

// next advances to the next output.
func (w *windows) next() {
	if w.ox++; w.ox == w.ow {
		w.ox, w.oy = 0, w.oy+1
	}
	w.from, w.to, w.at = w.span(w.ox)
}

// row returns the pixel at which row ky of the window enters the image, and
// whether it does.
func (w *windows) row(ky int) (pixel int, ok bool) {
	y := w.oy*w.SH - w.PH + ky
	return y*w.W + w.at, y >= 0 && y < w.H && w.from < w.to
}

// channels is the range [lo, hi) of the channels in a window.
type channels struct{ lo, hi int }

func (c channels) n() int { return c.hi - c.lo }

// gather fills dst with the windows of the outputs [lo, hi), one per row, from
// the image x [H·W, C]. Elements of a window are ordered by row, column and
// channel; gather copies those in [j0, j1).
func gather[F tensor.Float](g Geometry, dst, x Matrix[F], c channels, lo, hi, j0, j1 int) {
	n := c.n()
	line := g.KW * n                      // elements in a row of a window
	full := n == x.Cols && x.LD == n      // rows of windows are contiguous in the image
	first, last := j0/line, (j1-1)/line+1 // rows of a window to copy
	w := g.windows(lo)
	for o := lo; o < hi; o++ {
		row := dst.Data[(o-lo)*dst.LD:][:j1-j0]
		for ky := first; ky < last; ky++ {
			a, b := max(j0-ky*line, 0), min(j1-ky*line, line) // elements of this row to copy
			part := row[a+ky*line-j0 : b+ky*line-j0]
			pixel, ok := w.row(ky)
			if !ok {
				clear(part)
				continue
			}
			if w.from > 0 || w.to < g.KW {
				clear(part)
			}
			if full {
				s, e := max(a, w.from*n), min(b, w.to*n)
				if s < e {
					copy(part[s-a:e-a], x.Data[(pixel-w.from)*n+s:])
				}
				continue
			}
			for k := max(w.from, a/n); k < w.to && k*n < b; k++ {
				s, e := max(a, k*n), min(b, (k+1)*n)
				copy(part[s-a:e-a], x.Data[(pixel+k-w.from)*x.LD+c.lo+s-k*n:])
			}
		}
		w.next()
	}
}

// scatter is the transpose of gather for complete windows: it adds the windows
// of the outputs [lo, hi), the rows of src, to the image x.
func scatter[F tensor.Float](g Geometry, x, src Matrix[F], c channels, lo, hi int) {
	n := c.n()
	line := g.KW * n
	full := n == x.Cols && x.LD == n
	w := g.windows(lo)
	for o := lo; o < hi; o++ {
		for ky := range g.KH {
			pixel, ok := w.row(ky)
			if !ok {
				continue
			}
			part := src.Data[(o-lo)*src.LD+ky*line:][:line]
			if full {
				tensor.AddScaled(x.Data[pixel*n:(pixel+w.to-w.from)*n], 1, part[w.from*n:w.to*n])
				continue
			}
			for k := w.from; k < w.to; k++ {
				tensor.AddScaled(x.Data[(pixel+k-w.from)*x.LD+c.lo:][:n], 1, part[k*n:(k+1)*n])
			}
		}
		w.next()
	}
}
