package net

import (
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// dense returns the pass of a named product.
func (n *Net[F]) dense(name string, x, y, dy nn.Matrix[F]) nn.Dense[F] {
	return nn.NewDense(n.linear(name), n.tensor(name+".bias"), x, y, dy)
}

// span returns the sample's rows of v.
func (v *value[F]) span(s int) (lo, hi int) { return s * v.Rows, (s + 1) * v.Rows }

// residual returns the input that is added to the output, or nil.
func (p *place[F]) residual() *edge[F] {
	if p.step.Residual == "" {
		return nil
	}
	return p.in[len(p.in)-1]
}

// begin sets the output to the residual, to which a product is then added.
func (p *place[F]) begin(s int) (add bool) {
	r := p.residual()
	if r == nil {
		return false
	}
	p.out.at(s).CopyFrom(r.at(s))
	return true
}

// pass adds the gradient of the output to the residual.
func (p *place[F]) pass(s int) {
	if r := p.residual(); r != nil && r.want {
		r.slope(s).Take(p.out.slope(s), r.add)
	}
}

// below returns the sample's gradient of an input, empty if it is not needed.
func (e *edge[F]) below(s int) nn.Matrix[F] {
	if !e.want {
		return nn.Matrix[F]{}
	}
	return e.slope(s)
}

type linear[F tensor.Float] struct {
	place[F]
	dense nn.Dense[F]
}

func newLinear[F tensor.Float](n *Net[F], at place[F]) op[F] {
	return &linear[F]{at, n.dense(at.step.Name, at.in[0].y, at.out.y, at.out.dy)}
}

func (l *linear[F]) denses() []*nn.Dense[F] { return []*nn.Dense[F]{&l.dense} }

func (l *linear[F]) forward(_ *worker[F], s int) {
	lo, hi := l.out.span(s)
	l.dense.Forward(lo, hi, l.begin(s))
}

func (l *linear[F]) backward(_ *worker[F], spread []F, s int) {
	x := l.in[0]
	lo, hi := l.out.span(s)
	l.dense.Backward(x.below(s), spread, lo, hi, x.want, x.add)
	l.pass(s)
}

// mlp is two products with an activation between them, computed some rows at a
// time so that the intermediate values stay in the caches.
type mlp[F tensor.Float] struct {
	place[F]
	up, down nn.Dense[F]
}

func newMLP[F tensor.Float](n *Net[F], at place[F]) op[F] {
	s, rows := at.step, at.out.y.Rows
	u, du, h := nn.NewMatrix[F](rows, s.Hidden), nn.NewMatrix[F](rows, s.Hidden), nn.NewMatrix[F](rows, s.Hidden)
	return &mlp[F]{at, n.dense(s.Name+".up", at.in[0].y, u, du), n.dense(s.Name+".down", h, at.out.y, at.out.dy)}
}

func (m *mlp[F]) denses() []*nn.Dense[F] { return []*nn.Dense[F]{&m.up, &m.down} }

func (m *mlp[F]) forward(_ *worker[F], s int) {
	add := m.begin(s)
	lo, hi := m.out.span(s)
	for ; lo < hi; lo += nn.RowBlock {
		end := min(lo+nn.RowBlock, hi)
		m.up.Forward(lo, end, false)
		for t := lo; t < end; t++ {
			nn.Act(m.step.Activation, m.down.X.Row(t), m.up.Y.Row(t))
		}
		m.down.Forward(lo, end, add)
	}
}

func (m *mlp[F]) backward(w *worker[F], spread []F, s int) {
	x, dh, scratch := m.in[0], w.matrix(0, nn.RowBlock, m.step.Hidden), w.row(2*m.step.Hidden)
	lo, hi := m.out.span(s)
	for ; lo < hi; lo += nn.RowBlock {
		end := min(lo+nn.RowBlock, hi)
		m.down.Backward(dh, spread, lo, end, true, false)
		for t := lo; t < end; t++ {
			nn.ActBackward(m.step.Activation, m.up.DY.Row(t), dh.Row(t-lo), m.up.Y.Row(t), scratch)
		}
		dx := nn.Matrix[F]{}
		if x.want {
			dx = x.dy.Part(lo, end)
		}
		m.up.Backward(dx, spread, lo, end, x.want, x.add)
	}
	m.pass(s)
}

// attention is nn.Attend between its products, within one value or across two.
type attention[F tensor.Float] struct {
	place[F]
	heads nn.Heads
	qkv   nn.Dense[F]  // self attention
	q, kv nn.Dense[F]  // cross attention
	out   nn.Dense[F]  // of mixed
	lse   nn.Matrix[F] // [B·T, H]
	mixed nn.Matrix[F] // [B·T, C]
	cross bool
}

func newAttention[F tensor.Float](n *Net[F], at place[F]) op[F] {
	s, rows, C := at.step, at.out.y.Rows, at.out.Cols
	a := &attention[F]{place: at, heads: nn.Heads{Count: s.Heads, Dim: C / s.Heads}}
	a.lse, a.mixed = nn.NewMatrix[F](rows, s.Heads), nn.NewMatrix[F](rows, C)
	a.qkv = n.dense(s.Name+".qkv", at.in[0].y, nn.NewMatrix[F](rows, 3*C), nn.NewMatrix[F](rows, 3*C))
	a.out = n.dense(s.Name+".out", a.mixed, at.out.y, at.out.dy)
	return a
}

func newCrossAttention[F tensor.Float](n *Net[F], at place[F]) op[F] {
	s, rows, C, memory := at.step, at.out.y.Rows, at.out.Cols, at.in[1].y
	a := &attention[F]{place: at, heads: nn.Heads{Count: s.Heads, Dim: C / s.Heads}, cross: true}
	a.lse, a.mixed = nn.NewMatrix[F](rows, s.Heads), nn.NewMatrix[F](rows, C)
	a.q = n.dense(s.Name+".q", at.in[0].y, nn.NewMatrix[F](rows, C), nn.NewMatrix[F](rows, C))
	a.kv = n.dense(s.Name+".kv", memory, nn.NewMatrix[F](memory.Rows, 2*C), nn.NewMatrix[F](memory.Rows, 2*C))
	a.out = n.dense(s.Name+".out", a.mixed, at.out.y, at.out.dy)
	return a
}

func (a *attention[F]) denses() []*nn.Dense[F] {
	if a.cross {
		return []*nn.Dense[F]{&a.q, &a.kv, &a.out}
	}
	return []*nn.Dense[F]{&a.qkv, &a.out}
}

// parts returns the sample's queries, keys and values, or their gradients.
func (a *attention[F]) parts(s int, slope bool) (q, k, v nn.Matrix[F]) {
	pick := func(d *nn.Dense[F]) nn.Matrix[F] {
		if slope {
			return d.DY
		}
		return d.Y
	}
	C := a.step.Gives.Cols
	lo, hi := a.in[0].span(s)
	if !a.cross {
		m := pick(&a.qkv).Part(lo, hi)
		return m.Columns(0, C), m.Columns(C, 2*C), m.Columns(2*C, 3*C)
	}
	from, to := a.in[1].span(s)
	m := pick(&a.kv).Part(from, to)
	return pick(&a.q).Part(lo, hi), m.Columns(0, C), m.Columns(C, 2*C)
}

func (a *attention[F]) forward(w *worker[F], s int) {
	lo, hi := a.in[0].span(s)
	if a.cross {
		from, to := a.in[1].span(s)
		a.q.Forward(lo, hi, false)
		a.kv.Forward(from, to, false)
	} else {
		a.qkv.Forward(lo, hi, false)
	}
	q, k, v := a.parts(s, false)
	nn.Attend(a.heads, &w.heads, q, k, v, a.mixed.Part(lo, hi), a.lse.Part(lo, hi))
	a.out.Forward(lo, hi, a.begin(s))
}

func (a *attention[F]) backward(w *worker[F], spread []F, s int) {
	lo, hi := a.in[0].span(s)
	dmixed := w.matrix(0, hi-lo, a.step.Gives.Cols)
	a.out.Backward(dmixed, spread, lo, hi, true, false)
	q, k, v := a.parts(s, false)
	dq, dk, dv := a.parts(s, true)
	nn.AttendBackward(a.heads, &w.heads, q, k, v, a.mixed.Part(lo, hi), a.lse.Part(lo, hi), dq, dk, dv, dmixed)
	x := a.in[0]
	if a.cross {
		m := a.in[1]
		from, to := m.span(s)
		a.q.Backward(x.below(s), spread, lo, hi, x.want, x.add)
		a.kv.Backward(m.below(s), spread, from, to, m.want, m.add)
	} else {
		a.qkv.Backward(x.below(s), spread, lo, hi, x.want, x.add)
	}
	a.pass(s)
}
