package conv

import (
	"fmt"

	"mm-abi.org/mm/core/tensor"
)

// edges describes the parts of a depthwise window within the image, by output
// row and column.
type edges struct {
	rows, columns []span
	first, last   int // the columns [first, last) are not at an edge
	taps          map[[2]span]*tensor.Taps
	full          [2]span
	inner         *tensor.Taps // of the full window
}

// span is a part [lo, hi) of a window's rows or columns, and the divisor of an
// average.
type span struct{ lo, hi, count int }

// newEdges computes the edges.
func newEdges(w *Window, count func(dim, o int, s span) int) *edges {
	e := &edges{taps: make(map[[2]span]*tensor.Taps)}
	e.last = w.Out[1]
	for dim, list := range []*[]span{&e.rows, &e.columns} {
		for o := range w.Out[dim] {
			lo, hi := w.valid(dim, o)
			s := span{lo, hi, 0}
			s.count = count(dim, o, s)
			*list = append(*list, s)
		}
	}
	for dim, n := range w.Kernel {
		e.full[dim] = span{0, n, n}
	}
	full := e.full[1]
	for e.first < w.Out[1] && e.columns[e.first] != full {
		e.first++
	}
	for e.last > e.first && e.columns[e.last-1] != full {
		e.last--
	}
	for c := e.first; c < e.last; c++ {
		if e.columns[c] != full { // image narrower than the window
			e.last = e.first
		}
	}
	return e
}

// inImage counts the elements within the image.
func inImage(_, _ int, s span) int { return s.hi - s.lo }

// sweep visits the rows [y0, y1) of one block: it calls apply once row has its
// place, its pixels and its taps. There are no taps if the window is outside
// the image.
func (e *edges) sweep(w *Window, row *tensor.Row, lanes, y0, y1 int, apply func(x, y int)) {
	for y := y0; y < y1; y++ {
		v := e.rows[y]
		for x := 0; x < w.Out[1]; {
			h, n := e.columns[x], 1
			if x == e.first && e.last > e.first {
				n = e.last - e.first
			}
			row.Taps, row.N = e.inner, n
			if v != e.full[0] || h != e.full[1] {
				row.Taps = e.taps[[2]span{v, h}]
			}
			row.At = ((y*w.Stride[0]-w.Before[0])*w.In[1] + x*w.Stride[1] - w.Before[1]) * lanes
			// The first tap is the start of reading: the window may begin
			// before the image.
			row.At += (v.lo*w.Dilation[0]*w.In[1] + h.lo*w.Dilation[1]) * lanes
			apply(x, y)
			x += n
		}
	}
}

// prepare creates the taps of all pairs of spans that occur; weight returns the
// offset of the weight of a kernel element in an average over count.
func (e *edges) prepare(w *Window, lanes int, weight func(ky, kx, count int) int) {
	for _, v := range e.rows {
		for _, h := range e.columns {
			key := [2]span{v, h}
			if e.taps[key] != nil {
				continue
			}
			t := &tensor.Taps{}
			for ky := v.lo; ky < v.hi; ky++ {
				for kx := h.lo; kx < h.hi; kx++ {
					t.AddDepthwise(((ky-v.lo)*w.Dilation[0]*w.In[1]+(kx-h.lo)*w.Dilation[1])*lanes, weight(ky, kx, v.count*h.count))
				}
			}
			e.taps[key] = t
		}
	}
	e.inner = e.taps[e.full]
}

// depthwise convolves each channel with its weights.
func (f *Filter) depthwise(work *Work, w Window, out, x []float32, after After) {
	lanes, size := f.kernels.Lanes(), w.Kernel[0]*w.Kernel[1]
	weight := func(ky, kx, _ int) int { return (ky*w.Kernel[1] + kx) * lanes }
	if f.edge == nil || f.seen != w {
		f.seen, f.edge = w, newEdges(&w, inImage)
		f.edge.prepare(&w, lanes, weight)
	}
	blocks, plane := len(f.bias)/lanes, w.Out[0]*w.Out[1]*lanes
	per := pieces(w.Out[0]*blocks, w.Out[1]*size)
	chunks := (w.Out[0] + per - 1) / per
	work.For(chunks*blocks, 1, func(thread, lo, hi int) {
		row := &work.Rows[thread]
		for t := lo; t < hi; t++ {
			b, y0 := t/chunks, t%chunks*per
			y1 := min(y0+per, w.Out[0])
			*row = tensor.Row{
				X: x[b*w.In[0]*w.In[1]*lanes:][:w.In[0]*w.In[1]*lanes], Pixel: w.Stride[1] * lanes, Blocks: 1,
				W: f.weights[b*size*lanes:][:size*lanes], Bias: f.bias[b*lanes:][:lanes], Step: lanes, Low: after.Low, High: after.High,
			}
			f.edge.sweep(&w, row, lanes, y0, y1, func(x, y int) {
				at := b*plane + (y*w.Out[1]+x)*lanes
				row.Out = out[at:]
				if after.Add != nil {
					row.Add = after.Add[at:]
				}
				if row.Taps.Len() == 0 {
					blank(row, lanes)
					return
				}
				f.kernels.Depthwise(row)
			})
			if after.Shape != nil {
				seg := out[b*plane+y0*w.Out[1]*lanes : b*plane+y1*w.Out[1]*lanes]
				f.kernels.Shape(seg, seg, after.Shape)
			}
		}
		*row = tensor.Row{}
	})
}

// blank computes pixels whose windows are outside the image.
func blank(row *tensor.Row, lanes int) {
	for i := range row.N * lanes {
		v := row.Bias[i%lanes]
		if row.Add != nil {
			v += row.Add[i]
		}
		row.Out[i] = min(max(v, row.Low), row.High)
	}
}

// Pool is a pool over blocked images of one size.
type Pool struct {
	kernels       tensor.ConvKernels
	win           Window
	most          bool
	edge          *edges
	bias, weights []float32
}

// NewPool prepares a pool of the maximum of each window, or of the average over
// count elements of a dimension at output o. If count is nil, the average is
// over the elements within the image.
func NewPool(k tensor.ConvKernels, w Window, most bool, count func(dim, o int) int) *Pool {
	lanes, of := k.Lanes(), inImage
	if count != nil && !most {
		of = func(dim, o int, _ span) int { return count(dim, o) }
	}
	p := &Pool{kernels: k, win: w, most: most, edge: newEdges(&w, of), bias: make([]float32, lanes)}
	if most {
		for i := range p.bias {
			p.bias[i] = -infinity
		}
		p.edge.prepare(&w, lanes, func(_, _, _ int) int { return 0 })
		return p
	}
	n := 1
	for _, v := range p.edge.rows {
		for _, h := range p.edge.columns {
			n = max(n, v.count*h.count)
		}
	}
	p.weights = make([]float32, n*lanes)
	for i := range p.weights {
		p.weights[i] = 1 / float32(i/lanes+1)
	}
	p.edge.prepare(&w, lanes, func(_, _, count int) int { return (count - 1) * lanes })
	return p
}

// Do pools the given number of blocks, of all images.
func (p *Pool) Do(work *Work, blocks int, out, x []float32) {
	w, lanes := &p.win, p.kernels.Lanes()
	in, res := w.In[0]*w.In[1]*lanes, w.Out[0]*w.Out[1]*lanes
	if len(x) != blocks*in || len(out) != blocks*res {
		panic(fmt.Sprintf("conv: %d and %d elements for %d blocks of %+v", len(x), len(out), blocks, *w))
	}
	per := pieces(w.Out[0]*blocks, w.Out[1]*w.Kernel[0]*w.Kernel[1])
	chunks := (w.Out[0] + per - 1) / per
	work.For(chunks*blocks, 1, func(thread, lo, hi int) {
		row := &work.Rows[thread]
		for t := lo; t < hi; t++ {
			b, y0 := t/chunks, t%chunks*per
			*row = tensor.Row{
				X: x[b*in : (b+1)*in], Pixel: w.Stride[1] * lanes, Blocks: 1, W: p.weights, Bias: p.bias, Step: lanes,
				Low: -infinity, High: infinity,
			}
			p.edge.sweep(w, row, lanes, y0, min(y0+per, w.Out[0]), func(x, y int) {
				row.Out = out[b*res+(y*w.Out[1]+x)*lanes:]
				switch {
				case row.Taps.Len() == 0:
					blank(row, lanes)
				case p.most:
					p.kernels.MaxPool(row)
				default:
					p.kernels.Depthwise(row)
				}
			})
		}
		*row = tensor.Row{}
	})
}
