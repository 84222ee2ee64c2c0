// Package conv is convolution over pictures and over time, forward beside
// backward: [Conv] with groups, [Depthwise], and [Transposed], which enlarges.
//
// A sample is a matrix of pixels, row by row, and channels, [H·W, C]; time is a
// picture of one row. A convolution is a matrix product of windows: [Geometry]
// gathers the windows of a few dozen outputs at a time, so that no more of them
// than that is ever stored, and the product runs on the panels of core/tensor.
// The gradient of the weights is a product over all outputs of all samples,
// split over the threads by columns, whose windows are gathered column by
// column. Every sum has one order, whatever the number of threads.
package conv

import (
	"mm-abi.org/mm/core/nn"
	"mm-abi.org/mm/core/tensor"
)

// Geometry is windows of KH×KW pixels over a picture of H×W pixels with C
// channels, SH and SW apart, with PH and PW rows and columns of zeros around the
// picture.
type Geometry struct {
	H, W, C        int
	KH, KW, SH, SW int
	PH, PW         int
}

// OH is the number of windows from top to bottom, below 1 where none fits.
func (g Geometry) OH() int { return extent(g.H, g.KH, g.SH, g.PH) }

// OW is the number of windows from left to right.
func (g Geometry) OW() int { return extent(g.W, g.KW, g.SW, g.PW) }

func extent(n, kernel, stride, pad int) int {
	if n+2*pad < kernel {
		return 0
	}
	return (n+2*pad-kernel)/stride + 1
}

// span is the part of a window's row that lies in a picture: the window's
// columns [from, to), of which the first is the picture's column at.
func (g Geometry) span(ox int) (from, to, at int) {
	left := ox*g.SW - g.PW
	from, to = max(0, -left), min(g.KW, g.W-left)
	return from, max(from, to), left + from
}

// window walks the rows of the window of output o: its row ky, columns [from,
// to), of which the first is pixel at of the picture.
func (g Geometry) window(o int, visit func(ky, from, to, at int)) {
	oy, ox := o/g.OW(), o%g.OW()
	from, to, x := g.span(ox)
	for ky := range g.KH {
		y := oy*g.SH - g.PH + ky
		if y < 0 || y >= g.H || from >= to {
			visit(ky, 0, 0, 0)
			continue
		}
		visit(ky, from, to, y*g.W+x)
	}
}

// channels is the part [lo, hi) of the channels, of which windows are made.
type channels struct{ lo, hi int }

func (c channels) n() int { return c.hi - c.lo }

// gather fills dst with the windows of the outputs [lo, hi), a row each, taken
// of the picture x [H·W, C]: elements of a window are ordered by row, column and
// channel, and of them those [j0, j1) are wanted.
func gather[F tensor.Float](g Geometry, dst, x nn.Matrix[F], c channels, lo, hi, j0, j1 int) {
	n := c.n()
	line := g.KW * n // elements in a row of a window
	whole := n == x.Cols && x.LD == n
	for o := lo; o < hi; o++ {
		row := dst.Row(o - lo)[:j1-j0]
		g.window(o, func(ky, from, to, at int) {
			a, b := max(j0, ky*line), min(j1, (ky+1)*line) // wanted of this row
			if a >= b {
				return
			}
			part := row[a-j0 : b-j0]
			a, b = a-ky*line, b-ky*line
			if from > 0 || to < g.KW {
				clear(part)
			}
			if whole {
				s, e := max(a, from*n), min(b, to*n)
				if s < e {
					copy(part[s-a:e-a], x.Data[at*n+s-from*n:])
				}
				return
			}
			for k := max(from, a/n); k < to && k*n < b; k++ {
				s, e := max(a, k*n), min(b, (k+1)*n)
				copy(part[s-a:e-a], x.Row(at + k - from)[c.lo+s-k*n:])
			}
		})
	}
}

// scatter is the transpose of gather for whole windows: it adds the windows of
// the outputs [lo, hi), the rows of src, to the picture x.
func scatter[F tensor.Float](g Geometry, x, src nn.Matrix[F], c channels, lo, hi int) {
	n := c.n()
	line := g.KW * n
	whole := n == x.Cols && x.LD == n
	for o := lo; o < hi; o++ {
		row := src.Row(o - lo)
		g.window(o, func(ky, from, to, at int) {
			if from >= to {
				return
			}
			part := row[ky*line:][:line]
			if whole {
				tensor.AddScaled(x.Data[at*n:(at+to-from)*n], 1, part[from*n:to*n])
				return
			}
			for k := from; k < to; k++ {
				tensor.AddScaled(x.Row(at + k - from)[c.lo:c.hi], 1, part[k*n:(k+1)*n])
			}
		})
	}
}
