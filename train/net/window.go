package net

import (
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// windows is a convolution of any kind.
type windows[F tensor.Float] struct {
	place[F]
	pass interface {
		Forward(s *nn.ConvScratch[F], sample int)
		Backward(s *nn.ConvScratch[F], dx nn.Matrix[F], spread []F, sample int, want, add bool)
	}
}

func (c *windows[F]) forward(w *worker[F], s int) { c.pass.Forward(&w.conv, s) }

func (c *windows[F]) backward(w *worker[F], spread []F, s int) {
	x := c.in[0]
	c.pass.Backward(&w.conv, x.dy, spread, s, x.want, x.add)
}

// position adds a table to a value.
type position[F tensor.Float] struct {
	place[F]
	table *nn.Tensor[F] // [Rows, Cols]
}

func (p *position[F]) forward(_ *worker[F], s int) {
	x, y, C := p.in[0].at(s), p.out.at(s), p.out.Cols
	for t := range y.Rows {
		copy(y.Row(t), x.Row(t))
		tensor.AddScaled(y.Row(t), 1, p.table.Data[t*C:(t+1)*C])
	}
}

func (p *position[F]) backward(_ *worker[F], spread []F, s int) {
	dy := p.out.slope(s)
	addTable(p.table, spread, dy)
	if x := p.in[0]; x.want {
		x.slope(s).Take(dy, x.add)
	}
}

// addTable adds the rows of dy to the gradient of a table.
func addTable[F tensor.Float](table *nn.Tensor[F], spread []F, dy nn.Matrix[F]) {
	if table.Grad == nil {
		return
	}
	at := table.In(spread)
	for t := range dy.Rows {
		tensor.AddScaled(at[t*dy.Cols:(t+1)*dy.Cols], 1, dy.Row(t))
	}
}

// queries is a table, the same for every sample.
type queries[F tensor.Float] struct {
	place[F]
	table *nn.Tensor[F] // [Count, Cols]
}

func (q *queries[F]) forward(_ *worker[F], s int) {
	y, C := q.out.at(s), q.out.Cols
	for t := range y.Rows {
		copy(y.Row(t), q.table.Data[t*C:(t+1)*C])
	}
}

func (q *queries[F]) backward(_ *worker[F], spread []F, s int) {
	addTable(q.table, spread, q.out.slope(s))
}

// embedding looks up the rows of a table by id. It panics if an id is out of
// range: the caller checks ids from files.
type embedding[F tensor.Float] struct {
	place[F]
	weight *nn.Tensor[F] // [Count, Cols]
}

// row returns the range of the table for the id at row t of the batch.
func (e *embedding[F]) row(t int) (from, to int) {
	id := int(e.in[0].y.Row(t)[0])
	return id * e.out.Cols, (id + 1) * e.out.Cols
}

func (e *embedding[F]) forward(_ *worker[F], s int) {
	lo, hi := e.out.span(s)
	for t := lo; t < hi; t++ {
		from, to := e.row(t)
		copy(e.out.y.Row(t), e.weight.Data[from:to])
	}
}

func (e *embedding[F]) backward(_ *worker[F], _ []F, s int) {
	if x := e.in[0]; x.want && !x.add {
		x.slope(s).Zero() // an id has no slope
	}
}

// table returns a function that adds the gradients of the rows in sample order.
func (e *embedding[F]) table(n int) func(bool) {
	if e.weight.Grad == nil {
		return nil
	}
	return func(add bool) {
		if !add {
			clear(e.weight.Grad)
		}
		for t := range n * e.out.Rows {
			from, to := e.row(t)
			tensor.AddScaled(e.weight.Grad[from:to], 1, e.out.dy.Row(t))
		}
	}
}
