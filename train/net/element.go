package net

import (
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

type activation[F tensor.Float] struct {
	place[F]
	kind nn.Activation
}

// stretches visits matrices of one shape in parts that are contiguous in all of
// them: many rows at once if rows are short, otherwise one.
func stretches[F tensor.Float](visit func(parts [3][]F), all ...nn.Matrix[F]) {
	rows, cols := all[0].Rows, all[0].Cols
	step := max(1, stretch/cols)
	for _, m := range all {
		if m.LD != cols {
			step = 1
		}
	}
	for t := 0; t < rows; t += step {
		n := min(step, rows-t)
		var parts [3][]F
		for i, m := range all {
			parts[i] = m.Data[t*m.LD:][:n*cols]
		}
		visit(parts)
	}
}

// stretch is the approximate number of elements of a part.
const stretch = 1024

func (a *activation[F]) forward(_ *worker[F], s int) {
	stretches(func(p [3][]F) { nn.Act(a.kind, p[0], p[1]) }, a.out.at(s), a.in[0].at(s))
}

func (a *activation[F]) backward(w *worker[F], _ []F, s int) {
	x := a.in[0]
	if !x.want {
		return
	}
	n := max(stretch, a.out.Cols)
	scratch := w.row(3 * n)
	stretches(func(p [3][]F) {
		dx, dy, in := p[0], p[1], p[2]
		if !x.add {
			nn.ActBackward(a.kind, dx, dy, in, scratch)
			return
		}
		sum := scratch[2*n:][:len(dx)]
		nn.ActBackward(a.kind, sum, dy, in, scratch)
		tensor.AddScaled(dx, 1, sum)
	}, x.slope(s), a.out.slope(s), x.at(s))
}

type layerNorm[F tensor.Float] struct {
	place[F]
	norm  nn.LayerNorm[F]
	stats nn.Matrix[F] // [B·Rows, 2]
}

func (n *layerNorm[F]) forward(_ *worker[F], s int) {
	lo, hi := n.out.span(s)
	n.norm.Forward(n.out.at(s), n.in[0].at(s), n.stats.Part(lo, hi))
}

func (n *layerNorm[F]) backward(w *worker[F], spread []F, s int) {
	x := n.in[0]
	lo, hi := n.out.span(s)
	n.norm.Backward(x.below(s), n.out.slope(s), x.at(s), n.stats.Part(lo, hi), spread, w.row(2*n.out.Cols), x.want, x.add)
}

type rmsNorm[F tensor.Float] struct {
	place[F]
	norm nn.Norm[F]
	r    []F // [B·Rows]
}

func (n *rmsNorm[F]) forward(_ *worker[F], s int) {
	lo, hi := n.out.span(s)
	n.norm.Forward(n.out.y, n.in[0].y, n.r, lo, hi)
}

func (n *rmsNorm[F]) backward(w *worker[F], spread []F, s int) {
	x := n.in[0]
	lo, hi := n.out.span(s)
	dx := w.matrix(0, hi-lo, n.out.Cols)
	if x.want {
		dx = x.slope(s)
	}
	if !x.add || !x.want {
		dx.Zero()
	}
	dgain := n.norm.Gain.In(spread)
	for t := range dx.Rows {
		tensor.NormBackward(dx.Row(t), dgain, n.out.slope(s).Row(t), x.at(s).Row(t), n.norm.Gain.Data, n.r[lo+t])
	}
}

// row returns the row of m for row t; m may have one row for all.
func row[F tensor.Float](m nn.Matrix[F], t int) []F { return m.Row(min(t, m.Rows-1)) }

// modulate computes y = x·(1 + a) + b, with a and b columns of a second input.
type modulate[F tensor.Float] struct{ place[F] }

func (m *modulate[F]) forward(_ *worker[F], s int) {
	x, y, by, C, from := m.in[0].at(s), m.out.at(s), m.in[1].at(s), m.out.Cols, m.step.From
	for t := range y.Rows {
		to, r := y.Row(t), row(by, t)[from:]
		nn.Times(to, x.Row(t), r[:C])
		tensor.AddScaled(to, 1, x.Row(t))
		tensor.AddScaled(to, 1, r[C:2*C])
	}
}

func (m *modulate[F]) backward(w *worker[F], _ []F, s int) {
	x, by, dy, C, from := m.in[0], m.in[1], m.out.slope(s), m.out.Cols, m.step.From
	scratch := w.row(C)
	if x.want {
		dx := x.slope(s)
		for t := range dy.Rows {
			nn.Times(scratch, dy.Row(t), row(by.at(s), t)[from:from+C])
			tensor.AddScaled(scratch, 1, dy.Row(t))
			if x.add {
				tensor.AddScaled(dx.Row(t), 1, scratch)
			} else {
				copy(dx.Row(t), scratch)
			}
		}
	}
	if !by.want {
		return
	}
	dby := by.slope(s)
	if !by.add {
		dby.Zero()
	}
	for t := range dy.Rows {
		to := row(dby, t)[from:]
		nn.Times(scratch, dy.Row(t), x.at(s).Row(t))
		tensor.AddScaled(to[:C], 1, scratch)
		tensor.AddScaled(to[C:2*C], 1, dy.Row(t))
	}
}

// gate computes y = x + z·a, with a columns of a third input.
type gate[F tensor.Float] struct{ place[F] }

func (g *gate[F]) forward(_ *worker[F], s int) {
	x, z, y, by, C, from := g.in[0].at(s), g.in[1].at(s), g.out.at(s), g.in[2].at(s), g.out.Cols, g.step.From
	for t := range y.Rows {
		nn.Times(y.Row(t), z.Row(t), row(by, t)[from:from+C])
		tensor.AddScaled(y.Row(t), 1, x.Row(t))
	}
}

func (g *gate[F]) backward(w *worker[F], _ []F, s int) {
	x, z, by, dy, C, from := g.in[0], g.in[1], g.in[2], g.out.slope(s), g.out.Cols, g.step.From
	scratch := w.row(C)
	if x.want {
		x.slope(s).Take(dy, x.add)
	}
	if z.want {
		for t := range dy.Rows {
			nn.Times(scratch, dy.Row(t), row(by.at(s), t)[from:from+C])
			if z.add {
				tensor.AddScaled(z.slope(s).Row(t), 1, scratch)
			} else {
				copy(z.slope(s).Row(t), scratch)
			}
		}
	}
	if !by.want {
		return
	}
	dby := by.slope(s)
	if !by.add {
		dby.Zero()
	}
	for t := range dy.Rows {
		nn.Times(scratch, dy.Row(t), z.at(s).Row(t))
		tensor.AddScaled(row(dby, t)[from:from+C], 1, scratch)
	}
}

// affine computes y = Scale·x + Offset.
type affine[F tensor.Float] struct{ place[F] }

func (a *affine[F]) forward(_ *worker[F], s int) {
	for t := range a.out.Rows {
		nn.Affine(a.out.at(s).Row(t), a.in[0].at(s).Row(t), F(a.step.Scale), F(a.step.Offset))
	}
}

func (a *affine[F]) backward(_ *worker[F], _ []F, s int) {
	x := a.in[0]
	if !x.want {
		return
	}
	dx, dy := x.slope(s), a.out.slope(s)
	if !x.add {
		dx.Zero()
	}
	for t := range dy.Rows {
		tensor.AddScaled(dx.Row(t), F(a.step.Scale), dy.Row(t))
	}
}

// Frequencies returns the factors of a time embedding, Scale·Period^(-2i/n) for
// n output channels: first the cosines, then the sines (Vaswani et al., arXiv
// 1706.03762).
func (s *Step) Frequencies() []float64 {
	all := make([]float64, s.Gives.Cols/2)
	for i := range all {
		all[i] = s.Scale * math.Pow(s.Period, -float64(i)/float64(len(all)))
	}
	return all
}

type timing[F tensor.Float] struct {
	place[F]
	frequencies []float64
}

func (e *timing[F]) forward(_ *worker[F], s int) {
	half := len(e.frequencies)
	for t := range e.out.Rows {
		at, y := float64(e.in[0].at(s).Row(t)[0]), e.out.at(s).Row(t)
		for i, f := range e.frequencies {
			sin, cos := math.Sincos(f * at)
			y[i], y[half+i] = F(cos), F(sin)
		}
	}
}

func (e *timing[F]) backward(_ *worker[F], _ []F, s int) {
	x, half := e.in[0], len(e.frequencies)
	if !x.want {
		return
	}
	for t := range e.out.Rows {
		y, dy := e.out.at(s).Row(t), e.out.slope(s).Row(t)
		var sum float64
		for i, f := range e.frequencies {
			sum += f * float64(dy[half+i]*y[i]-dy[i]*y[half+i])
		}
		if dx := x.slope(s).Row(t); x.add {
			dx[0] += F(sum)
		} else {
			dx[0] = F(sum)
		}
	}
}
