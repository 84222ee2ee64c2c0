package image

import (
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/arith"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// pooling computes MaxPool, AveragePool and LpPool.
func pooling[T kernel.Number](c *kernel.Call) error {
	x := c.In[0]
	if x.Rank() < 3 {
		return fmt.Errorf("%v has no dimension for a window", x.Shape)
	}
	if c.Node.Op != "MaxPool" && kernel.Integral[T]() {
		return fmt.Errorf("unsupported type %s", x.Type)
	}
	w, err := windowOf(c, x.Shape[2:], nil)
	if err != nil {
		return err
	}
	if err := slide(c, &w); err != nil {
		return err
	}
	if err := w.sound(1); err != nil {
		return err
	}
	out, err := c.Result(0, x.Type, w.outs(x.Shape[0], x.Shape[1])...)
	if err != nil {
		return err
	}
	var places []int64
	if len(c.Out) > 1 {
		a, err := c.Result(1, onnx.INT64, out.Shape...)
		if err != nil {
			return err
		}
		places = kernel.Elements[int64](a)
	}
	if out.Len() == 0 {
		return nil
	}
	p := pooler{window: w, all: c.Int("count_include_pad", 0) != 0, p: float64(c.Int("p", 2))}
	xs, o := kernel.Elements[T](x), kernel.Elements[T](out)
	c.Each(len(o)/w.outSize, w.outSize*min(w.kernelSize, w.inSize+1), func(_, lo, hi int) {
		for r := lo; r < hi; r++ {
			plane := xs[r*w.inSize : (r+1)*w.inSize]
			if places == nil && c.Node.Op != "LpPool" {
				byRows(&p, o[r*w.outSize:(r+1)*w.outSize], plane, c.Node.Op == "MaxPool")
				continue
			}
			for i := range w.outSize {
				at := r*w.outSize + i
				var place int
				if c.Node.Op == "MaxPool" {
					o[at], place = largest(&p, plane, i)
				} else {
					o[at] = T(p.norm(i, func(at int) float64 { return float64(plane[at]) }))
				}
				if places != nil {
					places[at] = int64(r*w.inSize + place)
				}
			}
		}
	})
	return nil
}

// byRows computes a plane of maxima or averages, tap by tap over complete rows.
func byRows[T kernel.Number](p *pooler, o, x []T, most bool) {
	start := T(0)
	if most {
		start = arith.Extreme[T](nil, 1)
	}
	for i := range o {
		o[i] = start
	}
	n := p.out[2]
	for r := range len(o) / n {
		row := o[r*n : (r+1)*n]
		d0, d1, da := p.bounds(0, r/p.out[1])
		h0, h1, ha := p.bounds(1, r%p.out[1])
		for t := range (d1 - d0) * (h1 - h0) * p.kernel[2] {
			kw, d, h := t%p.kernel[2], d0+t/p.kernel[2]/(h1-h0), h0+t/p.kernel[2]%(h1-h0)
			lo, hi := p.span(2, kw)
			if lo >= hi {
				continue
			}
			line := x[((da+d*p.dilation[0])*p.in[1]+ha+h*p.dilation[1])*p.in[2]:][:p.in[2]]
			at, step := lo*p.stride[2]+kw*p.dilation[2]-p.before[2], p.stride[2]
			if most {
				for i := lo; i < hi; i++ {
					row[i] = max(row[i], line[at])
					at += step
				}
				continue
			}
			for i := lo; i < hi; i++ {
				row[i] += line[at]
				at += step
			}
		}
		if !most {
			p.divide(r*n, (d1-d0)*(h1-h0), func(i, n int) { row[i] /= T(n) })
		}
	}
}

// divide calls f with the divisor of the average for each output of a row that
// begins at at.
func (p *pooler) divide(at, deep int, f func(i, n int)) {
	for i := range p.out[2] {
		n := p.covered(at + i)
		if !p.all {
			w0, w1, _ := p.bounds(2, i)
			n = deep * (w1 - w0)
		}
		f(i, n)
	}
}

// pooler is a window with the options of pools.
type pooler struct {
	window
	all bool // averages include padding
	p   float64
}

// bounds returns the kernel elements [lo, hi) within the input for output o,
// and the position of element 0.
func (w *window) bounds(dim, o int) (lo, hi, at int) {
	at = o*w.stride[dim] - w.before[dim]
	d := w.dilation[dim]
	if at < 0 {
		lo = (-at + d - 1) / d
	}
	if last := w.in[dim] - 1 - at; last >= 0 {
		hi = min(last/d+1, w.kernel[dim])
	}
	return lo, max(lo, hi), at
}

// visit calls f for the elements under the window of output i.
func (w *window) visit(i int, f func(at int)) {
	d0, d1, da := w.bounds(0, i/(w.out[1]*w.out[2]))
	h0, h1, ha := w.bounds(1, i/w.out[2]%w.out[1])
	w0, w1, wa := w.bounds(2, i%w.out[2])
	for d := d0; d < d1; d++ {
		for h := h0; h < h1; h++ {
			base := ((da+d*w.dilation[0])*w.in[1] + ha + h*w.dilation[1]) * w.in[2]
			for x := w0; x < w1; x++ {
				f(base + wa + x*w.dilation[2])
			}
		}
	}
}

func largest[T kernel.Number](p *pooler, x []T, i int) (best T, place int) {
	best, place = arith.Extreme[T](nil, 1), 0
	first := true
	p.visit(i, func(at int) {
		if v := x[at]; first || v > best || v != v {
			best, place, first = v, at, false
		}
	})
	return best, place
}

// norm returns the p-norm of the elements under the window of output i.
func (p *pooler) norm(i int, x func(at int) float64) float64 {
	sum := 0.0
	p.visit(i, func(at int) { sum += math.Pow(math.Abs(x(at)), p.p) })
	return math.Pow(sum, 1/p.p)
}

// covered returns the number of elements that the window of output i has in the
// input and its padding, without the elements that ceil_mode adds.
func (w *window) covered(i int) int {
	n := 1
	for dim, o := range []int{i / (w.out[1] * w.out[2]), i / w.out[2] % w.out[1], i % w.out[2]} {
		n *= w.coveredIn(dim, o)
	}
	return n
}

// coveredIn is covered for one dimension.
func (w *window) coveredIn(dim, o int) int {
	last := w.in[dim] + w.after[dim] - 1 - (o*w.stride[dim] - w.before[dim])
	return min(last/w.dilation[dim]+1, w.kernel[dim])
}

// globalPool computes one number for each channel.
func globalPool[T float32 | float64](c *kernel.Call) error {
	x := c.In[0]
	if x.Rank() < 3 {
		return fmt.Errorf("%v has no dimensions for a pool", x.Shape)
	}
	shape := slices.Clone(x.Shape)
	for i := 2; i < len(shape); i++ {
		shape[i] = 1
	}
	n := kernel.Product(x.Shape[2:])
	f := arith.Folding[T]("ReduceMean")
	switch c.Node.Op {
	case "GlobalMaxPool":
		f = arith.Folding[T]("ReduceMax")
	case "GlobalLpPool":
		if c.Int("p", 2) != 2 {
			return fmt.Errorf("p %d is not supported", c.Int("p", 2))
		}
		f = arith.Folding[T]("ReduceL2")
	}
	return arith.Folded(c, x, shape, kernel.Product(shape), n, func(x, out *kernel.Array, lo, hi, n int) {
		xs, o := kernel.Elements[T](x), kernel.Elements[T](out)
		for g := lo; g < hi; g++ {
			o[g] = f(xs[g*n : (g+1)*n])
		}
	})
}
