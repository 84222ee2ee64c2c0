package infer

import (
	"mm-abi.org/mm/core/quant/panel"
	"mm-abi.org/mm/core/tensor"
)

// term is one of several products that share their activations.
type term struct {
	by *linear
	to *matrix
}

// multiply computes t.to = batch · t.by for each term, as one loop.
func (w *work) multiply(batch *panel.Batch, terms ...term) {
	w.observe(batch, terms...)
	task := &w.product
	task.batch = batch
	task.terms = append(task.terms[:0], terms...)
	units := 0
	for _, t := range terms {
		units += unitsOf(t.by)
		w.lower(t.by, batch)
	}
	w.m.threads.For(units, w.chunk(units, batch.Rows(), terms[0].by), task)
}

// unitsOf returns the number of units of output rows.
func unitsOf(l *linear) int { return (l.weight.Rows() + panel.Unit - 1) / panel.Unit }

// chunk returns the number of units per thread at a time for a product of so
// many rows: large enough for a few microseconds of work, small enough that the
// threads end together.
func (w *work) chunk(units, rows int, l *linear) int {
	const least = 32 << 10 // bytes of weights, read once for each row
	perUnit := max(1, l.weight.Bytes()/unitsOf(l)*rows)
	return max(1, min(units/(4*w.m.threads.Threads()), (least+perUnit-1)/perUnit))
}

// productTask multiplies; its indices are units of the terms' outputs, in
// order.
type productTask struct {
	w     *work
	batch *panel.Batch
	terms []term
}

func (p *productTask) Do(thread, lo, hi int) {
	for _, t := range p.terms {
		n := unitsOf(t.by)
		if lo < n {
			t.by.mul(t.to, p.batch, lo, min(hi, n), &p.w.scratch[thread])
		}
		lo, hi = max(lo-n, 0), hi-n
		if hi <= 0 {
			return
		}
	}
}

// mul computes the units lo to hi of a product.
func (l *linear) mul(y *matrix, batch *panel.Batch, lo, hi int, s *panel.Scratch) {
	lo, hi = lo*panel.Unit, min(hi*panel.Unit, l.weight.Rows())
	l.weight.Mul(y.data, y.stride, batch, lo, hi, s)
	for t := range batch.Rows() {
		row := y.data[t*y.stride+lo : t*y.stride+hi]
		for i := range l.changes {
			l.changes[i].add(row, t, lo)
		}
		if len(l.bias) > 0 {
			tensor.Add(row, l.bias[lo:hi])
		}
	}
}
