package infer

import (
	"context"
	"slices"

	"mm-abi.org/mm/core/quant/panel"
	"mm-abi.org/mm/core/tensor"
)

// maxBatch is the number of positions in one pass.
const maxBatch = 256

// span is the rows of one session in a pass.
type span struct {
	cache *kvCache
	state []float32 // of the session, or nil
	turns []rotation
	first int // position of the first row
	rows  int
	keep  int // the last rows whose logits are computed
	row   int // index of the first row in the pass

	tokens []int32     // of the rows; vector: none
	places []place     // of the rows; nil: their positions
	blocks []block     // of the session that reach into the rows, or nil
	deep   []deepInput // for the first layers, or nil
	hidden []float32   // rows×C after the last norm, or nil
}

// pass describes one pass through the model: T rows of some sessions.
type pass struct {
	spans    []span
	rows     int // T
	keep     int // rows whose logits are computed
	observer Observer
}

// newPass returns the pass of spans.
func newPass(observer Observer, spans ...span) pass {
	p := pass{spans: spans, observer: observer}
	for _, s := range spans {
		p.rows += s.rows
		p.keep += s.keep
	}
	return p
}

// forward runs the rows of w.x through the model. It adds their keys and values
// to the caches and sets w.logits to the logits of the last rows of each span.
func (m *Model) forward(ctx context.Context, p pass) error {
	w := &m.work
	w.begin(p)
	all := p.allRows() || m.altup != nil // whose numbers pass all layers
	if m.altup != nil {
		w.spread() // streams: K×T×C
	}
	for i := range m.layers {
		y := &m.layers[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		w.observeLayer(i)
		w.altup.layer = i
		if m.cfg.Feeds(i) {
			if i == len(m.layers)-1 && !all {
				if w.shrink(); w.rows == 0 {
					return nil
				}
			}
			w.norm(&y.hiddenNorm)        // normed: T×C
			w.feedForward(y)             // out: T×C
			w.add(&w.out, &y.hiddenPost) // x: T×C
			continue
		}
		if m.many {
			w.predict() // x: T×C
		}
		w.norm(&y.attentionNorm) // normed: T×C
		last := i == len(m.layers)-1 && !all
		if m.many {
			w.aside(y.altup) // laurel: T×C
		}
		if y.mixer != nil {
			w.mix(y) // out: T×C
		} else {
			w.project(i, y) // q: T×(H·D)
		}
		if last {
			if w.shrink(); w.rows == 0 { // from here T is the number of rows with logits
				return nil
			}
		}
		if y.mixer == nil {
			w.result(y) // out: T×C
		}
		if m.cfg.Parallel {
			w.norm(&y.hiddenNorm) // of the input of attention
		}
		w.add(&w.out, &y.attentionPost) // x: T×C
		if m.many {
			w.altup.run(joinLaurel) // x: T×C
		}
		if m.cfg.Hidden == 0 || y.lone {
			continue // without a feed-forward half
		}

		// Feed-forward: x += Wdown · (act(Wgate·x) ⊙ (Wup·x))
		if !m.cfg.Parallel {
			w.norm(&y.hiddenNorm) // normed: T×C
		}
		w.feedForward(y)             // out: T×C
		w.add(&w.out, &y.hiddenPost) // x: T×C
		if y.altup != nil {
			w.correct(y.altup) // streams: K×T×C
		}
		if y.scale != nil {
			tensor.Scale(w.x[:w.rows*m.cfg.Width], y.scale[0])
		}
		w.deepen(i)
	}
	if m.many {
		w.gather() // x: T×C
	}
	w.observeLayer(len(m.layers))
	w.norm(&m.outputNorm) // normed: T×C
	if all {
		w.show()
		w.observe(&w.normed, term{by: &m.output})
		w.observer = nil // the remaining rows were observed already
		if p.keep < w.rows {
			w.shrink()
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

// project computes the queries, keys and values of a layer, and adds keys and
// values to the caches.
func (w *work) project(i int, y *layer) {
	if y.latent != nil {
		w.compress(y) // k: T×(R+P), q: T×(H·(R+P))
	} else if w.m.gates {
		w.multiply(&w.normed, term{&y.key, &w.key}, term{&y.value, &w.value}, term{&y.query, &w.both})
		w.m.threads.For(w.rows, 1, &w.parting) // q, gates: T×(H·D)
	} else if y.value.weight == nil && !y.shares { // values are keys without their norm and rotation
		w.multiply(&w.normed, term{&y.key, &w.key}, term{&y.query, &w.query})
		for t := range w.rows {
			copy(w.value.row(t, y.keyHeads*y.dim), w.key.row(t, y.keyHeads*y.dim))
		}
	} else if y.shares {
		w.multiply(&w.normed, term{&y.query, &w.query}) // q: T×(H·D)
	} else {
		w.multiply(&w.normed, term{&y.key, &w.key}, term{&y.value, &w.value}, term{&y.query, &w.query}) // k, v: T×(G·D), q: T×(H·D)
	}
	w.place(i) // q and k are rotated, k and v join the cache
}

// result sets out to the result of attention: Wo · softmax(q·kᵀ·s) · v.
func (w *work) result(y *layer) {
	w.attend() // attended: T×(H·D)
	attended := &w.attended
	if y.latent != nil {
		attended = w.expand(y) // T×(H·V)
	}
	w.multiply(attended, term{&y.attentionOut, &w.out}) // out: T×C
}

// allRows reports whether all rows pass all layers, not only those with logits.
func (p *pass) allRows() bool {
	return p.observer != nil || slices.ContainsFunc(p.spans, func(s span) bool { return s.hidden != nil })
}

// finish scales and caps logits if the model does so.
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

// resize allocates rows × cols with undefined contents.
func (a *matrix) resize(rows, cols int) {
	a.stride = (cols + panel.Unit - 1) / panel.Unit * panel.Unit
	n := (rows + 7) / 8 * 8 * a.stride
	if cap(a.data) < n {
		a.data = make([]float32, n)
	}
	a.data = a.data[:n]
}

func (a *matrix) row(t, cols int) []float32 { return a.data[t*a.stride : t*a.stride+cols] }

// work holds the buffers of a pass.
type work struct {
	m *Model
	pass
	passed int    // rows at the beginning of the pass
	own    []span // memory of the pass's spans
	owner  []int  // T, the span of each row

	x          []float32   // T×C, the residual stream
	normed     panel.Batch // T×C
	query      matrix      // T×(H·D)
	both       matrix      // T×(2·H·D), of each head the query and its gate
	gates      matrix      // T×(H·D)
	key, value matrix      // T×(G·D)
	attended   panel.Batch // T×(H·D)
	out        matrix      // T×C
	gate, up   matrix      // T×F
	hidden     panel.Batch // T×F
	logits     matrix      // T×V
	angle      []angles    // one a rotation
	capped     []float32   // V

	routes    matrix      // T×E
	chosen    [][]choice  // by expert
	picks     []int       // experts of a row
	picked    panel.Batch // rows of an expert
	part      matrix      // their results
	densePart matrix      // T×C, the result of the feed-forward layer next to them

	latent    latentWork
	mixing    mixWork
	altup     altupWork
	scores    []float32       // E, by which experts are chosen
	bests     []float32       // of the groups of experts
	scratch   []panel.Scratch // one a thread
	normalise normTask
	residual  addTask
	prepare   prepareTask
	placement placeTask
	parting   partTask
	product   productTask
	active    activeTask
	attention attentionTask
}

func (w *work) init(m *Model) {
	w.m = m
	w.scratch = make([]panel.Scratch, m.threads.Threads())
	w.parting.w = w
	w.normalise.w, w.residual.w, w.placement.w, w.product.w, w.active.w, w.attention.w, w.latent.w, w.mixing.w, w.altup.w = w, w, w, w, w, w, w, w, w
	w.attention.scratch = make([]attentionScratch, m.threads.Threads())
}

// input returns the buffer for the rows of x.
func (w *work) input(rows int) []float32 {
	n := rows * w.m.cfg.Width
	w.x = slices.Grow(w.x[:min(len(w.x), n)], max(0, n-len(w.x)))[:n] // rows of earlier spans remain
	return w.x
}

// begin sizes the buffers for a pass and computes the angles of its positions.
func (w *work) begin(p pass) {
	c := &w.m.cfg
	w.pass, w.passed = p, p.rows
	w.pass.spans = append(w.own[:0], p.spans...) // shrink changes them
	w.own = w.pass.spans
	w.normed.Resize(p.rows, c.Width)
	w.attended.Resize(p.rows, c.Heads*c.ValueDim())
	if c.Mixer != nil {
		w.mixing.resize(w.m, p.rows)
	}
	if c.Latent != nil {
		w.latent.resize(w.m, p.rows)
	}
	if c.Altup != nil {
		w.altup.resize(w.m, p.rows)
	}
	dim, keys := max(c.HeadDim, c.LocalHeadDim), max(c.KVHeads*c.HeadDim, c.LocalKVHeads*c.LocalHeadDim)
	w.query.resize(p.rows, c.Heads*dim)
	if w.m.gates {
		w.both.resize(p.rows, 2*c.Heads*c.HeadDim)
		w.gates.resize(p.rows, c.Heads*c.HeadDim)
	}
	w.key.resize(p.rows, keys)
	w.value.resize(p.rows, keys)
	w.out.resize(p.rows, c.Width)
	wide := max(c.HiddenOf(c.Layers-1), c.ExpertHidden, c.SharedHidden)
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
	w.number()
	if w.m.positions != nil {
		for t := range w.rows {
			tensor.Add(w.x[t*c.Width:(t+1)*c.Width], w.m.positions[w.position(t)*c.Width:][:c.Width])
		}
	}
	if w.m.inputNorm.gain != nil {
		for t := range w.rows {
			w.m.inputNorm.apply(w.stream(t), w.stream(t), c.Epsilon)
		}
	}
	w.turn()
}

// number sets the first row of each span and the owner of each row.
func (w *work) number() {
	w.owner = w.owner[:0]
	for i := range w.spans {
		s := &w.spans[i]
		s.row = len(w.owner)
		for range s.rows {
			w.owner = append(w.owner, i)
		}
	}
}

// position returns the position of row t in its session.
func (w *work) position(t int) int {
	s := &w.spans[w.owner[t]]
	return s.first + t - s.row
}

// shrink keeps only the rows with logits: after the last layer's keys and
// values, the others are not needed.
func (w *work) shrink() {
	if w.rows == w.keep {
		return
	}
	c, to := &w.m.cfg, 0
	for i := range w.spans {
		s := &w.spans[i]
		drop := s.rows - s.keep
		from := s.row + drop
		copy(w.x[to*c.Width:], w.x[from*c.Width:(from+s.keep)*c.Width])
		copy(w.query.data[to*w.query.stride:], w.query.data[from*w.query.stride:(from+s.keep)*w.query.stride])
		if w.m.gates {
			copy(w.gates.data[to*w.gates.stride:], w.gates.data[from*w.gates.stride:(from+s.keep)*w.gates.stride])
		}
		copy(w.out.data[to*w.out.stride:], w.out.data[from*w.out.stride:(from+s.keep)*w.out.stride])
		s.first, s.rows = s.first+drop, s.keep
		to += s.keep
	}
	w.rows = w.keep
	w.number()
	if w.rows == 0 {
		return
	}
	w.normed.Resize(w.rows, c.Width)
	w.attended.Resize(w.rows, c.Heads*c.ValueDim())
}

// show copies the normalized rows of the spans that want them.
func (w *work) show() {
	c := w.m.cfg.Width
	for _, s := range w.spans {
		for t := 0; s.hidden != nil && t < s.rows; t++ {
			copy(s.hidden[t*c:(t+1)*c], w.normed.Row(s.row+t))
		}
	}
}

// ready prepares a filled batch for products.
func (w *work) ready(b *panel.Batch) {
	w.prepare.batch = b
	w.m.threads.For(b.Tiles(), 1, &w.prepare)
}

// prepareTask prepares tiles; its indices are tiles of the batch.
type prepareTask struct{ batch *panel.Batch }

func (p *prepareTask) Do(_, lo, hi int) {
	for i := lo; i < hi; i++ {
		prepareTile(p.batch, i)
	}
}

// prepareTile quantizes a tile. Rows that are not a multiple of the group size
// support float products only.
func prepareTile(b *panel.Batch, i int) {
	if b.Cols()%32 == 0 {
		b.Prepare(i)
	}
}
