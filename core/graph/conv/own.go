package conv

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
)

// edges is how a window of a channel's own lies over rows and columns: which
// part of it is within the image, by output row and column.
type edges struct {
	rows, columns []span
	first, last   int // the columns [first, last) see all of the window
	taps          map[[2]span]*tensor.Taps
}

// span is a part [lo, hi) of a window's rows or columns, and of how many the
// average is over them.
type span struct{ lo, hi, count int }

// lookOwn finds the edges.
func lookOwn(w *Window, count func(dim, o int, s span) int) *edges {
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
	whole := span{0, w.Kernel[1], w.Kernel[1]}
	for e.first < w.Out[1] && e.columns[e.first] != whole {
		e.first++
	}
	for e.last > e.first && e.columns[e.last-1] != whole {
		e.last--
	}
	for c := e.first; c < e.last; c++ {
		if e.columns[c] != whole { // an image narrower than the window
			e.last = e.first
		}
	}
	return e
}

// inImage counts what lies within the image.
func inImage(_, _ int, s span) int { return s.hi - s.lo }

// sweep goes over the rows [y0, y1) of one block: apply is called when row has
// its place, its pixels and its taps, of which there are none where nothing of
// the window lies within the image.
func (e *edges) sweep(w *Window, row *tensor.Row, lanes, y0, y1 int, apply func(x, y int)) {
	for y := y0; y < y1; y++ {
		v := e.rows[y]
		for x := 0; x < w.Out[1]; {
			h, n := e.columns[x], 1
			if x == e.first && e.last > e.first {
				n = e.last - e.first
			}
			t := e.taps[[2]span{v, h}]
			row.Taps, row.N = t, n
			row.At = ((y*w.Stride[0]-w.Before[0])*w.In[1] + x*w.Stride[1] - w.Before[1]) * lanes
			// The first tap is where reading begins: the window's own begin may
			// lie before the image.
			row.At += (v.lo*w.Dilation[0]*w.In[1] + h.lo*w.Dilation[1]) * lanes
			apply(x, y)
			x += n
		}
	}
}

// prepare makes the taps of all pairs of spans that occur; weight gives where
// the weight of a kernel element is, in an average over count.
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
					t.AddOwn(((ky-v.lo)*w.Dilation[0]*w.In[1]+(kx-h.lo)*w.Dilation[1])*lanes, weight(ky, kx, v.count*h.count))
				}
			}
			e.taps[key] = t
		}
	}
}

// depthwise convolves each channel with its own weights.
func (f *Filter) depthwise(work *Work, w Window, out, x []float32, after After) {
	lanes, size := f.kernels.Lanes(), w.Kernel[0]*w.Kernel[1]
	weight := func(ky, kx, _ int) int { return (ky*w.Kernel[1] + kx) * lanes }
	if f.edge == nil || f.seen != w {
		f.seen, f.edge = w, lookOwn(&w, inImage)
		f.edge.prepare(&w, lanes, weight)
	}
	blocks, plane := len(f.bias)/lanes, w.Out[0]*w.Out[1]*lanes
	per := pieces(w.Out[0]*blocks, w.Out[1]*size)
	chunks := (w.Out[0] + per - 1) / per
	work.Pool.For(chunks*blocks, 1, pool.Func(func(thread, lo, hi int) {
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
				f.kernels.Own(row)
			})
			if after.Shape != nil {
				seg := out[b*plane+y0*w.Out[1]*lanes : b*plane+y1*w.Out[1]*lanes]
				f.kernels.Shape(seg, seg, after.Shape)
			}
		}
		*row = tensor.Row{}
	}))
}

// blank computes pixels whose windows see nothing of the image.
func blank(row *tensor.Row, lanes int) {
	for i := range row.N * lanes {
		v := row.Bias[i%lanes]
		if row.Add != nil {
			v += row.Add[i]
		}
		row.Out[i] = min(max(v, row.Low), row.High)
	}
}

// Pool is a pool over blocks of channels.
type Pool struct {
	Kernels tensor.ConvKernels
	Most    bool // the largest element; else the average
	// Count is how many elements an average is over in a dimension, at output
	// o; nil: those within the image.
	Count func(dim, o int) int
}

// Do pools the given number of blocks, of all images.
func (p *Pool) Do(work *Work, w Window, blocks int, out, x []float32) {
	lanes := p.Kernels.Lanes()
	in, res := w.In[0]*w.In[1]*lanes, w.Out[0]*w.Out[1]*lanes
	if len(x) != blocks*in || len(out) != blocks*res {
		panic(fmt.Sprintf("conv: %d and %d elements for %d blocks of %+v", len(x), len(out), blocks, w))
	}
	count := inImage
	if p.Count != nil {
		count = func(dim, o int, _ span) int { return p.Count(dim, o) }
	}
	low, high := float32(math.Inf(-1)), float32(math.Inf(1))
	bias := make([]float32, lanes)
	var weights []float32
	weight := func(_, _, count int) int { return (count - 1) * lanes }
	if p.Most {
		count = inImage
		weight = func(_, _, _ int) int { return 0 }
		for i := range bias {
			bias[i] = low
		}
	}
	e := lookOwn(&w, count)
	if !p.Most {
		most := 1
		for _, v := range e.rows {
			for _, h := range e.columns {
				most = max(most, v.count*h.count)
			}
		}
		weights = make([]float32, most*lanes)
		for i := range weights {
			weights[i] = 1 / float32(i/lanes+1)
		}
	}
	e.prepare(&w, lanes, weight)
	per := pieces(w.Out[0]*blocks, w.Out[1]*w.Kernel[0]*w.Kernel[1])
	chunks := (w.Out[0] + per - 1) / per
	work.Pool.For(chunks*blocks, 1, pool.Func(func(thread, lo, hi int) {
		row := &work.Rows[thread]
		for t := lo; t < hi; t++ {
			b, y0 := t/chunks, t%chunks*per
			*row = tensor.Row{X: x[b*in : (b+1)*in], Pixel: w.Stride[1] * lanes, Blocks: 1, W: weights, Bias: bias, Step: lanes, Low: low, High: high}
			e.sweep(&w, row, lanes, y0, min(y0+per, w.Out[0]), func(x, y int) {
				row.Out = out[b*res+(y*w.Out[1]+x)*lanes:]
				switch {
				case row.Taps.Len() == 0:
					blank(row, lanes)
				case p.Most:
					p.Kernels.Most(row)
				default:
					p.Kernels.Own(row)
				}
			})
		}
		*row = tensor.Row{}
	}))
}
