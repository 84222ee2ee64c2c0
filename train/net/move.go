package net

import (
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// Sources returns, for each output row of a layer that repeats or picks rows,
// the input row.
func (s *Step) Sources() []int {
	from := make([]int, s.Gives.Rows)
	for t := range from {
		switch s.Kind {
		case "slice":
			from[t] = s.From + t
		case "upsample1d":
			from[t] = t / s.Factor
		case "upsample2d":
			w := s.Takes[0].Rows / s.Height
			y, x := t/(w*s.Factor), t%(w*s.Factor)
			from[t] = y/s.Factor*w + x/s.Factor
		}
	}
	return from
}

// pick copies each output row from an input row.
type pick[F tensor.Float] struct {
	place[F]
	from []int
}

func (p *pick[F]) forward(_ *worker[F], s int) {
	x, y := p.in[0].at(s), p.out.at(s)
	for t, r := range p.from {
		copy(y.Row(t), x.Row(r))
	}
}

func (p *pick[F]) backward(_ *worker[F], _ []F, s int) {
	x := p.in[0]
	if !x.want {
		return
	}
	dx, dy := x.slope(s), p.out.slope(s)
	if !x.add {
		dx.Zero()
	}
	for t, r := range p.from {
		tensor.AddScaled(dx.Row(r), 1, dy.Row(t))
	}
}

// columns selects columns of the input.
type columns[F tensor.Float] struct{ place[F] }

func (c *columns[F]) forward(_ *worker[F], s int) {
	c.out.at(s).CopyFrom(c.in[0].at(s).Columns(c.step.From, c.step.To))
}

func (c *columns[F]) backward(_ *worker[F], _ []F, s int) {
	x := c.in[0]
	if !x.want {
		return
	}
	dx := x.slope(s)
	if !x.add {
		dx.Zero()
	}
	dx.Columns(c.step.From, c.step.To).Take(c.out.slope(s), true)
}

// concat concatenates its inputs.
type concat[F tensor.Float] struct{ place[F] }

// parts visits the part of m, the output or its gradient, of each input.
func (c *concat[F]) parts(m nn.Matrix[F], visit func(e *edge[F], part nn.Matrix[F])) {
	at := 0
	for _, e := range c.in {
		if c.step.Axis == "rows" {
			visit(e, m.Part(at, at+e.Rows))
			at += e.Rows
		} else {
			visit(e, m.Columns(at, at+e.Cols))
			at += e.Cols
		}
	}
}

func (c *concat[F]) forward(_ *worker[F], s int) {
	c.parts(c.out.at(s), func(e *edge[F], part nn.Matrix[F]) { part.CopyFrom(e.at(s)) })
}

func (c *concat[F]) backward(_ *worker[F], _ []F, s int) {
	c.parts(c.out.slope(s), func(e *edge[F], part nn.Matrix[F]) {
		if e.want {
			e.slope(s).Take(part, e.add)
		}
	})
}

type add[F tensor.Float] struct{ place[F] }

func (a *add[F]) forward(_ *worker[F], s int) {
	for i, e := range a.in {
		a.out.at(s).Take(e.at(s), i > 0)
	}
}

func (a *add[F]) backward(_ *worker[F], _ []F, s int) {
	for _, e := range a.in {
		if e.want {
			e.slope(s).Take(a.out.slope(s), e.add)
		}
	}
}

type multiply[F tensor.Float] struct{ place[F] }

func (m *multiply[F]) forward(_ *worker[F], s int) {
	for t := range m.out.Rows {
		nn.Times(m.out.at(s).Row(t), m.in[0].at(s).Row(t), m.in[1].at(s).Row(t))
	}
}

func (m *multiply[F]) backward(w *worker[F], _ []F, s int) {
	scratch := w.row(m.out.Cols)
	for i, e := range m.in {
		if !e.want {
			continue
		}
		other, dx, dy := m.in[1-i].at(s), e.slope(s), m.out.slope(s)
		for t := range dy.Rows {
			nn.Times(scratch, dy.Row(t), other.Row(t))
			if e.add {
				tensor.AddScaled(dx.Row(t), 1, scratch)
			} else {
				copy(dx.Row(t), scratch)
			}
		}
	}
}

// mean averages Factor rows that are Every apart.
type mean[F tensor.Float] struct{ place[F] }

// rows visits every pair of an output row and an input row of its mean.
func (m *mean[F]) rows(visit func(out, in int)) {
	f, b := m.step.Factor, m.step.Every
	for a := range m.out.Rows / b {
		for i := range f {
			for j := range b {
				visit(a*b+j, (a*f+i)*b+j)
			}
		}
	}
}

func (m *mean[F]) forward(_ *worker[F], s int) {
	x, y, share := m.in[0].at(s), m.out.at(s), 1/F(m.step.Factor)
	y.Zero()
	m.rows(func(out, in int) { tensor.AddScaled(y.Row(out), share, x.Row(in)) })
}

func (m *mean[F]) backward(_ *worker[F], _ []F, s int) {
	x := m.in[0]
	if !x.want {
		return
	}
	dx, dy, share := x.slope(s), m.out.slope(s), 1/F(m.step.Factor)
	if !x.add {
		dx.Zero()
	}
	m.rows(func(out, in int) { tensor.AddScaled(dx.Row(in), share, dy.Row(out)) })
}

// shuffle turns the channels of each pixel into a square of pixels, ordered by
// row, column and channel (Shi et al., arXiv 1609.05158).
type shuffle[F tensor.Float] struct{ place[F] }

// pixels visits every pixel of the output with its position in the input.
func (p *shuffle[F]) pixels(visit func(out, in, from int)) {
	f, C := p.step.Factor, p.out.Cols
	w := p.in[0].Rows / p.step.Height
	for t := range p.out.Rows {
		y, x := t/(w*f), t%(w*f)
		visit(t, y/f*w+x/f, (y%f*f+x%f)*C)
	}
}

func (p *shuffle[F]) forward(_ *worker[F], s int) {
	x, y, C := p.in[0].at(s), p.out.at(s), p.out.Cols
	p.pixels(func(out, in, from int) { copy(y.Row(out), x.Row(in)[from:from+C]) })
}

func (p *shuffle[F]) backward(_ *worker[F], _ []F, s int) {
	x := p.in[0]
	if !x.want {
		return
	}
	dx, dy, C := x.slope(s), p.out.slope(s), p.out.Cols
	p.pixels(func(out, in, from int) {
		to := dx.Row(in)[from : from+C]
		if x.add {
			tensor.AddScaled(to, 1, dy.Row(out))
		} else {
			copy(to, dy.Row(out))
		}
	})
}

// reshape keeps the elements in order, row by row.
type reshape[F tensor.Float] struct{ place[F] }

// runs visits the elements that are contiguous in both matrices.
func runs[F tensor.Float](a, b nn.Matrix[F], visit func(a, b []F)) {
	n := a.Rows * a.Cols
	for i := 0; i < n; {
		k := min(a.Cols-i%a.Cols, b.Cols-i%b.Cols)
		visit(a.Row(i / a.Cols)[i%a.Cols:][:k], b.Row(i / b.Cols)[i%b.Cols:][:k])
		i += k
	}
}

func (r *reshape[F]) forward(_ *worker[F], s int) {
	runs(r.out.at(s), r.in[0].at(s), func(to, from []F) { copy(to, from) })
}

func (r *reshape[F]) backward(_ *worker[F], _ []F, s int) {
	x := r.in[0]
	if !x.want {
		return
	}
	runs(x.slope(s), r.out.slope(s), func(to, from []F) {
		if x.add {
			tensor.AddScaled(to, 1, from)
		} else {
			copy(to, from)
		}
	})
}
