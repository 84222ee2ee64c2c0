package infer

import (
	"context"

	"mm-abi.org/mm/core/quant/panel"
	"mm-abi.org/mm/core/tensor"
)

// maxBatch is how many positions go through the model at a time.
const maxBatch = 256

// pass is what one trip through the model is about.
type pass struct {
	cache *kvCache
	turns []rotation
	first int // position of the first row
	rows  int // T
	keep  int // logits are wanted for the last so many rows

	hidden []float32 // T×C for the rows behind the last norm, or none

	observer Observer // or none
}

// forward sends the rows of w.x through the model. Keys and values of the
// rows are added to the cache; w.logits holds the logits of the last p.keep
// rows afterwards.
func (m *Model) forward(ctx context.Context, p pass) error {
	w := &m.work
	w.begin(p)
	for i := range m.layers {
		y := &m.layers[i]
		if err := ctx.Err(); err != nil {
			return err
		}

		// Attention: x += Wo · softmax(q·kᵀ·s) · v
		w.norm(&y.attentionNorm)                                                                        // normed: T×C
		w.multiply(&w.normed, term{&y.key, &w.key}, term{&y.value, &w.value}, term{&y.query, &w.query}) // k, v: T×(G·D), q: T×(H·D)
		w.place(i)                                                                                      // q and k are rotated, k and v join the cache
		if i == len(m.layers)-1 {
			if !p.whole() {
				w.shrink(p.keep) // T is now the number of rows with logits
			}
			if w.rows == 0 {
				return nil
			}
		}
		w.attend()                                             // attended: T×(H·D)
		w.multiply(&w.attended, term{&y.attentionOut, &w.out}) // out: T×C
		if m.cfg.Parallel {
			w.norm(&y.hiddenNorm) // of what attention has read
		}
		w.add(&w.out, &y.attentionPost) // x: T×C

		// Feed-forward: x += Wdown · (act(Wgate·x) ⊙ (Wup·x))
		if !m.cfg.Parallel {
			w.norm(&y.hiddenNorm) // normed: T×C
		}
		w.feedForward(y)             // out: T×C
		w.add(&w.out, &y.hiddenPost) // x: T×C
	}
	w.norm(&m.outputNorm) // normed: T×C
	if p.whole() {
		if p.hidden != nil {
			w.show(p.hidden)
		}
		w.observe(&w.normed, term{by: &m.output})
		w.observer = nil // the rows that are left are known
		if p.keep < w.rows {
			w.shrink(p.keep)
			if w.rows == 0 {
				return nil
			}
			w.norm(&m.outputNorm)
		}
	}
	w.multiply(&w.normed, term{&m.output, &w.logits}) // logits: T×V
	w.finish()
	return nil
}

// whole says that all rows go through all layers, whatever logits are wanted.
func (p *pass) whole() bool { return p.hidden != nil || p.observer != nil }

// finish scales and caps logits where the model does so.
func (w *work) finish() {
	c := &w.m.cfg
	for t := range w.rows {
		row := w.logits.row(t, c.Vocab)
		if c.LogitDivisor != 0 {
			tensor.Scale(row, 1/c.LogitDivisor)
		}
		if c.LogitCap != 0 {
			w.capped = append(w.capped[:0], row...)
			softCap(row, c.LogitCap, w.capped)
		}
	}
}

// matrix is rows of float32 in memory, padded for the kernels.
type matrix struct {
	data   []float32
	stride int
}

// resize gives room for rows × cols; the contents are undefined.
func (a *matrix) resize(rows, cols int) {
	a.stride = (cols + panel.Unit - 1) / panel.Unit * panel.Unit
	n := (rows + 7) / 8 * 8 * a.stride
	if cap(a.data) < n {
		a.data = make([]float32, n)
	}
	a.data = a.data[:n]
}

func (a *matrix) row(t, cols int) []float32 { return a.data[t*a.stride : t*a.stride+cols] }

// work is the memory of a pass.
type work struct {
	m *Model
	pass
	passed int // rows at the beginning of the pass

	x          []float32   // T×C, the residual stream
	normed     panel.Batch // T×C
	query      matrix      // T×(H·D)
	key, value matrix      // T×(G·D)
	attended   panel.Batch // T×(H·D)
	out        matrix      // T×C
	gate, up   matrix      // T×F
	hidden     panel.Batch // T×F
	logits     matrix      // T×V
	angle      []angles    // one a rotation
	capped     []float32   // V

	routes matrix      // T×E
	chosen [][]choice  // by expert
	taken  []int       // experts of a row
	picked panel.Batch // rows of an expert
	part   matrix      // their results

	scratch   []panel.Scratch // one a thread
	normalise normTask
	residual  addTask
	prepare   prepareTask
	placement placeTask
	product   productTask
	active    activeTask
	attention attentionTask
}

func (w *work) init(m *Model) {
	w.m = m
	w.scratch = make([]panel.Scratch, m.threads.Threads())
	w.normalise.w, w.residual.w, w.placement.w, w.product.w, w.active.w, w.attention.w = w, w, w, w, w, w
	w.attention.scratch = make([]attentionScratch, m.threads.Threads())
}

// input gives room for the rows of x.
func (w *work) input(rows int) []float32 {
	n := rows * w.m.cfg.Width
	if cap(w.x) < n {
		w.x = make([]float32, n)
	}
	w.x = w.x[:n]
	return w.x
}

// begin sizes the memory for a pass and computes the angles of its positions.
func (w *work) begin(p pass) {
	c := &w.m.cfg
	w.pass, w.passed = p, p.rows
	w.normed.Resize(p.rows, c.Width)
	w.attended.Resize(p.rows, c.Heads*c.HeadDim)
	w.hidden.Resize(p.rows, c.Hidden)
	w.query.resize(p.rows, c.Heads*c.HeadDim)
	w.key.resize(p.rows, c.KVHeads*c.HeadDim)
	w.value.resize(p.rows, c.KVHeads*c.HeadDim)
	w.out.resize(p.rows, c.Width)
	wide := max(c.Hidden, c.ExpertHidden)
	w.gate.resize(p.rows, wide)
	w.up.resize(p.rows, wide)
	w.logits.resize(p.keep, c.Vocab)
	if c.Experts > 0 {
		w.routes.resize(p.rows, c.Experts)
		w.part.resize(p.rows, c.Width)
		if w.chosen == nil {
			w.chosen = make([][]choice, c.Experts)
		}
	}
	if w.m.positions != nil {
		tensor.Add(w.x, w.m.positions[p.first*c.Width:][:len(w.x)])
	}
	w.turn()
}

// shrink leaves only the last n rows: what follows the keys and values of the
// last layer is needed where logits are wanted only.
func (w *work) shrink(n int) {
	drop := w.rows - n
	if drop == 0 {
		return
	}
	c := &w.m.cfg
	w.first, w.rows = w.first+drop, n
	if n == 0 {
		return
	}
	copy(w.x, w.x[drop*c.Width:])
	copy(w.query.data, w.query.data[drop*w.query.stride:])
	w.normed.Resize(n, c.Width)
	w.attended.Resize(n, c.Heads*c.HeadDim)
	w.hidden.Resize(n, c.Hidden)
}

// show copies the normalised rows.
func (w *work) show(dst []float32) {
	c := w.m.cfg.Width
	for t := range w.rows {
		copy(dst[t*c:(t+1)*c], w.normed.Row(t))
	}
}

// ready makes a batch whose rows have been filled ready for products.
func (w *work) ready(b *panel.Batch) {
	w.prepare.batch = b
	w.m.threads.For(b.Tiles(), 1, &w.prepare)
}

// prepareTask prepares; its indices are tiles of the batch.
type prepareTask struct{ batch *panel.Batch }

func (p *prepareTask) Do(_, lo, hi int) {
	for i := lo; i < hi; i++ {
		prepareTile(p.batch, i)
	}
}

// prepareTile quantises a tile. Rows that are no whole number of groups can be
// multiplied by floats only.
func prepareTile(b *panel.Batch, i int) {
	if b.Cols()%32 == 0 {
		b.Prepare(i)
	}
}
