package infer

import (
	"math"
	"slices"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/tensor"
)

// rotation is the RoPE of a session's queries and keys.
type rotation struct {
	theta []float64 // frequencies of RoPE
	axis  []int     // of the place that rotates each pair; nil: the first
	scale float64   // factor of rotated vectors
}

// at returns the angle of pair i at a place.
func (r *rotation) at(p place, i int) float64 {
	if r.axis == nil {
		return float64(p[0]) * r.theta[i]
	}
	return float64(p[r.axis[i]]) * r.theta[i]
}

// angles holds the cosine and sine of the angle of every pair at every position
// of the pass: T×(Dims/2).
type angles struct{ cos, sin []float32 }

// turn computes the pass's angles for every rotation.
func (w *work) turn() {
	kinds := len(w.spans[0].turns)
	w.angle = slices.Grow(w.angle[:0], kinds)[:kinds]
	for r := range kinds {
		a := &w.angle[r]
		n := len(w.spans[0].turns[r].theta)
		if cap(a.cos) < w.rows*n {
			a.cos, a.sin = make([]float32, w.rows*n), make([]float32, w.rows*n)
		}
		a.cos, a.sin = a.cos[:w.rows*n], a.sin[:w.rows*n]
		for t := range w.rows {
			s := &w.spans[w.owner[t]]
			by, at := &s.turns[r], s.place(t-s.row)
			for i := range n {
				sin, cos := math.Sincos(by.at(at, i))
				a.cos[t*n+i], a.sin[t*n+i] = float32(cos*by.scale), float32(sin*by.scale)
			}
		}
	}
}

// place rotates the queries and keys of a layer and adds keys and values to the
// cache. For a single row attend does this, head by head.
func (w *work) place(layer int) {
	w.attention.layer = layer
	if y := &w.m.layers[layer]; y.queryNorm.kind == arch.WholeHeadNorm {
		c := &w.m.cfg
		for t := range w.rows {
			q, k := w.query.row(t, c.Heads*y.dim), w.key.row(t, y.keyHeads*y.dim)
			y.queryNorm.apply(q, q, c.Epsilon)
			y.keyNorm.apply(k, k, c.Epsilon)
		}
	}
	if w.single() && w.m.cfg.Latent == nil {
		return
	}
	w.m.threads.For(w.rows, tileRows, &w.placement)
}

// single reports whether the pass is a single row throughout.
func (w *work) single() bool { return w.passed == 1 && w.keep == 1 }

// placeTask rotates and stores rows; its indices are rows.
type placeTask struct{ w *work }

func (p *placeTask) Do(_, lo, hi int) {
	for t := lo; t < hi; t++ {
		if p.w.m.cfg.Latent != nil {
			p.w.placeLatent(t)
			continue
		}
		for h := range p.w.m.layers[p.w.attention.layer].keyHeads {
			p.w.placeHead(t, h)
		}
	}
}

// placeHead stores the key and the value of a head of row t, unless an earlier layer
// did, and scales the queries that read them, by 1/√D unless the model sets a scale.
func (w *work) placeHead(t, head int) {
	c, layer := &w.m.cfg, w.attention.layer
	y := &w.m.layers[layer]
	group := c.Heads / y.keyHeads * y.dim
	k := w.key.row(t, y.keyHeads*y.dim)[head*y.dim:][:y.dim]
	v := w.value.row(t, y.keyHeads*y.dim)[head*y.dim:][:y.dim]
	q := w.query.row(t, c.Heads*y.dim)[head*group:][:group]
	w.rotate(q, y, &y.queryNorm, head*(c.Heads/y.keyHeads), t)
	tensor.Scale(q, w.m.attentionScale*w.cooling(t))
	cache := w.spans[w.owner[t]].cache
	cache.Spread(y.slot, q)
	if y.shares {
		return
	}
	w.rotate(k, y, &y.keyNorm, head, t)
	y.valueNorm.apply(v, v, c.Epsilon)
	cache.Spread(y.slot, k)
	cache.Store(y.slot, head, w.position(t), k, v)
}

// cooling returns the factor of the queries of row t by its position.
func (w *work) cooling(t int) float32 {
	c := &w.m.cfg
	if c.Cooling == 0 {
		return 1
	}
	return 1 + c.Cooling*float32(math.Log1p(float64(w.position(t)/max(c.Rope.OriginalContext, 1))))
}

// rotate normalizes heads, starting at first, if the model does so, before or after
// it rotates them by the position of row t.
func (w *work) rotate(x []float32, y *layer, by *headNorm, first, t int) {
	c := &w.m.cfg
	normed := by.gain != nil && by.kind != arch.WholeHeadNorm
	var cos, sin []float32
	if y.rotation >= 0 {
		n := len(w.spans[0].turns[y.rotation].theta)
		a := &w.angle[y.rotation]
		cos, sin = a.cos[t*n:(t+1)*n], a.sin[t*n:(t+1)*n]
	}
	for ; len(x) > 0; x = x[y.dim:] {
		head := x[:y.dim]
		if normed && !by.last {
			one := by.of(first, y.dim)
			one.apply(head, head, c.Epsilon)
		}
		switch {
		case cos == nil:
		case c.Rope.Halves:
			tensor.RopeHalves(head[:2*len(cos)], cos, sin)
		default:
			tensor.RopePairs(head[:2*len(cos)], cos, sin)
		}
		if normed && by.last {
			one := by.of(first, y.dim)
			one.apply(head, head, c.Epsilon)
		}
		first++
	}
}

// attend fills attended with softmax(q·kᵀ)·v.
func (w *work) attend() {
	c := &w.m.cfg
	a := &w.attention
	y := &w.m.layers[a.layer]
	a.group, a.window = c.Heads/y.keyHeads, y.window
	w.attended.Resize(w.rows, c.Heads*y.values)
	a.jobs = a.jobs[:0]
	for i := range w.spans {
		a.divide(&w.spans[i])
	}
	w.m.threads.For(len(a.jobs), 1, a)
	if w.m.gates {
		for t := range w.rows {
			gate := w.gates.row(t, c.Heads*c.HeadDim)
			tensor.Sigmoid(gate, gate)
			tensor.Times(w.attended.Row(t), w.attended.Row(t), gate)
		}
	}
	w.ready(&w.attended)
}

// partTask parts the queries of rows from their gates; its indices are rows.
type partTask struct{ w *work }

func (p *partTask) Do(_, lo, hi int) {
	w, c := p.w, &p.w.m.cfg
	for t := lo; t < hi; t++ {
		both := w.both.row(t, 2*c.Heads*c.HeadDim)
		query, gate := w.query.row(t, c.Heads*c.HeadDim), w.gates.row(t, c.Heads*c.HeadDim)
		for i := 0; i < len(query); i += c.HeadDim {
			copy(query[i:i+c.HeadDim], both[2*i:])
			copy(gate[i:i+c.HeadDim], both[2*i+c.HeadDim:])
		}
	}
}

// divide adds the jobs of a span.
func (a *attentionTask) divide(s *span) {
	w, c, heads := a.w, &a.w.m.cfg, a.w.m.layers[a.layer].keyHeads
	tiles := (s.rows + tileRows - 1) / tileRows
	// Later positions take longer, and come first. The heads that share a key
	// head alternate, so that they share the loads.
	slices := (a.group*s.rows + sliceRows - 1) / sliceRows
	if n := w.m.threads.Threads(); n > 1 {
		slices = max(slices, (4*n+heads-1)/heads)
	}
	slices = min(slices, tiles)
	if c.Latent != nil && s.rows == 1 { // the only key head is read by many queries
		n := w.m.threads.Threads()
		for part := range n {
			a.jobs = append(a.jobs, attentionJob{span: s, to: 1, first: a.group * part / n, end: a.group * (part + 1) / n})
		}
		return
	}
	for slice := slices - 1; slice >= 0; slice-- {
		from, to := tiles*slice/slices*tileRows, min(tiles*(slice+1)/slices*tileRows, s.rows)
		for head := range heads {
			a.jobs = append(a.jobs, attentionJob{span: s, head: head, from: from, to: to, end: a.group})
		}
	}
}

// attentionJob is a slice of the rows of a span, for a key head.
type attentionJob struct {
	span       *span
	head       int
	from, to   int
	first, end int // query heads of those that share the key head
}

// attentionTask computes attention in chunks of positions with a running
// maximum and sum (Milakov and Gimelshein, arXiv 1805.02867; Dao et al., arXiv
// 2205.14135). Its indices are jobs.
type attentionTask struct {
	w       *work
	layer   int
	group   int // query heads that share a key head
	window  int // visible positions; 0: all
	jobs    []attentionJob
	scratch []attentionScratch
}

func (a *attentionTask) Do(thread, lo, hi int) {
	w := a.w
	c := &w.m.cfg
	y := &w.m.layers[a.layer]
	values := y.values
	for _, j := range a.jobs[lo:hi] {
		s := j.span
		at, row, heads := j.head*a.group+j.first, s.row+j.from, j.end-j.first
		if heads == 0 {
			continue
		}
		q := queries{
			head: j.head, heads: heads, rows: j.to - j.from, stride: w.query.stride, first: s.first + j.from, step: 1, window: a.window, blocks: s.blocks,
			q: w.query.data[row*w.query.stride+at*y.dim:], out: w.attended.From(row)[at*values:], outStride: c.Heads * values,
		}
		if y.sinks != nil {
			q.sinks = y.sinks[at:][:heads]
		}
		if w.m.slopes != nil {
			q.slopes = w.m.slopes[at:][:heads]
		}
		if s.rows == 1 {
			// The rows of a product are the query heads that share a key head.
			if w.single() && c.Latent == nil {
				w.placeHead(0, j.head)
			}
			q.heads, q.rows, q.stride, q.step, q.outStride = 1, heads, y.dim, 0, values
			q.q = q.q[:heads*y.dim] // other threads place the next heads
		}
		a.run(&a.scratch[thread], s.cache, q)
	}
}

// sliceRows is the approximate number of query rows that share the loads of a
// chunk.
const sliceRows = 512

// queries are rows of queries that read the same keys.
type queries struct {
	head      int       // key head
	heads     int       // query heads, consecutive in q and out
	rows      int       // number of queries of a head
	stride    int       // from one to the next in q
	first     int       // position of the first
	step      int       // increment of the position from row to row, 0 or 1
	window    int       // positions visible to a query, including its position; 0: all
	blocks    []block   // whose positions see each other
	q         []float32 // D numbers a row
	out       []float32 // D numbers a row
	outStride int
	sinks     []float32 // scores without a value, one a head, or nil
	slopes    []float32 // of scores by the distance, one a head, or nil
}

// run computes the attention of q's rows over the cache and writes the weighted
// values.
func (a *attentionTask) run(s *attentionScratch, cache *kvCache, q queries) {
	y := &a.w.m.layers[a.layer]
	dim, values, slot := y.dim, y.values, y.slot
	padded := (q.rows + tileRows - 1) / tileRows * tileRows // rows of state of a head
	s.resize(cache.shape, cache.Panels(slot), q.heads*padded)
	// A single tile of queries reads float16 directly; for several tiles one
	// conversion is faster.
	s.halves = cache.Type() == tensor.F16 && q.heads*q.rows <= tileRows && cache.shape.Latent == 0
	end := q.end(q.rows - 1) // positions visible to the last row
	s.limit = a.w.m.cfg.AttentionCap
	for base := q.begin(0); base < end; base += kvChunk {
		s.read(cache, base/kvChunk, slot, q.head, dim, min(end-base, kvChunk))
		for r := 0; r < q.rows; r += tileRows {
			rows := min(tileRows, q.rows-r)
			n := min(q.end(r+rows-1)-base, kvChunk)
			if n <= 0 || base < q.begin(r) {
				continue
			}
			for h := range q.heads {
				one := q
				one.q = q.q[h*dim:]
				if one.slopes != nil {
					one.slopes = q.slopes[h:]
				}
				s.tile(one, h*padded, r, rows, base, n, dim)
			}
		}
	}
	for h := range q.heads {
		for r := range q.rows {
			at := h*padded + r
			row := s.sum[at*s.width:][:values]
			tensor.Scale(row, s.share(at, q.sink(h, r)))
			if values != dim {
				cache.Spread(slot, row) // the value is a part of the key
			}
			copy(q.out[r*q.outStride+h*values:], row)
		}
	}
}

// share returns the factor of the weighted values of a row of state for the
// score of a sink, which may be -Inf.
func (s *attentionScratch) share(row int, sink float32) float32 {
	if sink <= s.most[row] {
		return 1 / (s.total[row] + float32(math.Exp(float64(sink-s.most[row]))))
	}
	f := float32(math.Exp(float64(s.most[row] - sink)))
	return f / (s.total[row]*f + 1)
}

// sink returns the score without a value of row r of head h, or -Inf. The rows
// are heads if all have one position.
func (q queries) sink(h, r int) float32 {
	switch {
	case q.sinks == nil:
		return float32(math.Inf(-1))
	case q.step == 0:
		return q.sinks[r]
	}
	return q.sinks[h]
}

// lean subtracts the distances of the positions from base on, times the slope of the
// head, from the scores of row r. The rows are heads if all have one position.
func (q queries) lean(scores []float32, base, r int) {
	slope := q.slopes[0]
	if q.step == 0 {
		slope = q.slopes[r]
	}
	for j := range scores {
		scores[j] -= slope * float32(q.position(r)-base-j)
	}
}

// position returns the position of a row.
func (q queries) position(r int) int { return q.first + r*q.step }

// sees returns the first position visible to row r.
func (q queries) sees(r int) int {
	if q.window == 0 {
		return 0
	}
	from := max(0, q.position(r)-q.window+1)
	if b := mutualAt(q.blocks, q.position(r)); b != nil {
		return min(from, b.first)
	}
	return from
}

// end returns the position after the last one visible to row r.
func (q queries) end(r int) int {
	if b := mutualAt(q.blocks, q.position(r)); b != nil {
		return b.first + b.rows
	}
	return q.position(r) + 1
}

// begin returns the start of the first chunk visible to row r.
func (q queries) begin(r int) int { return q.sees(r) / kvChunk * kvChunk }

// tileRows is the number of queries that share the loads of keys and values.
const tileRows = 8

// factor is a right factor, of float32 or of F16.
type factor struct {
	floats []float32
	halves []byte
}

// mul calls tensor.MulPanel.
func (p factor) mul(c []float32, ldc int, a []float32, lda, m, k int, acc bool) {
	if p.halves != nil {
		tensor.MulPanelF16(c, ldc, a, lda, p.halves, m, k, acc)
	} else {
		tensor.MulPanel(c, ldc, a, lda, p.floats, m, k, acc)
	}
}

// attentionScratch is the memory of a thread.
type attentionScratch struct {
	scores []float32 // 8 × Chunk
	keyBuf []float32 // Chunk/32 × D × 32
	valBuf []float32 // panels × Chunk × 32
	keys   []factor  // D × 32, 32 positions each
	values []factor  // positions × 32, 32 dimensions each
	halves bool      // panels are F16
	limit  float32   // soft cap of scores; 0: none
	capped []float32 // Chunk
	width  int       // of a row of sum: panels·32
	sum    []float32 // rows × width, the values weighted so far
	most   []float32 // rows, the largest score so far
	total  []float32 // rows, the sum of exponentials so far
}

func (s *attentionScratch) resize(shape cacheShape, panels, rows int) {
	s.width = panels * Block
	dim := max(shape.Dim, shape.LocalDim)
	most := (dim + Block - 1) / Block
	if s.scores == nil {
		s.scores = make([]float32, tileRows*kvChunk)
		s.keyBuf = make([]float32, kvChunk*dim)
		s.valBuf = make([]float32, kvChunk*most*Block)
		s.keys = make([]factor, kvChunk/Block)
		s.values = make([]factor, most)
		s.capped = make([]float32, kvChunk)
	}
	s.values = s.values[:panels]
	if len(s.total) < rows {
		padded := (rows + tileRows - 1) / tileRows * tileRows
		s.sum = make([]float32, padded*most*Block)
		s.most, s.total = make([]float32, padded), make([]float32, padded)
	}
}

// read loads the keys and values of the first n positions of a chunk.
func (s *attentionScratch) read(c *kvCache, chunk, layer, head, dim, n int) {
	for b := 0; b*Block < n; b++ {
		if s.halves {
			s.keys[b] = factor{halves: c.KeysF16(chunk, layer, head, b)}
		} else {
			s.keys[b] = factor{floats: c.Keys(chunk, layer, head, b, s.keyBuf[b*dim*Block:])}
		}
	}
	for p := range s.values {
		switch {
		case c.shape.Latent > 0:
			s.values[p] = factor{floats: s.latent(p, dim, n)}
			continue
		case s.halves:
			s.values[p] = factor{halves: c.ValuesF16(chunk, layer, head, p, n)}
		default:
			s.values[p] = factor{floats: c.Values(chunk, layer, head, p, n, s.valBuf[p*kvChunk*Block:])}
		}
	}
}

// latent returns a panel of values that are the first dimensions of keys.
func (s *attentionScratch) latent(panel, dim, n int) []float32 {
	out := s.valBuf[panel*kvChunk*Block:][:kvChunk*Block]
	dims := min(dim-panel*Block, Block)
	for b := 0; b*Block < n; b++ {
		tensor.Transpose(out[b*Block*Block:], Block, s.keys[b].floats[panel*Block*Block:], Block, dims, Block)
	}
	return out
}

// tile adds n positions from base on to rows r to r+rows of a head's q, whose
// sums begin at row state. Masked positions, after the row or before its
// window, get the score -Inf and contribute exactly zero.
func (s *attentionScratch) tile(q queries, state, r, rows, base, n, dim int) {
	padded := (n + Block - 1) / Block * Block
	// Kernels are fastest with 4 or 8 rows; the rows in memory after the last
	// one may be multiplied as well.
	m := rows
	if full := (rows + 3) / 4 * 4; rows > 2 && (r+full-1)*q.stride+dim <= len(q.q) {
		m = full
	}
	begin := base == q.begin(r)
	for b := 0; b*Block < n; b++ {
		// scores (rows × 32) = q (rows × D) · keys (D × 32)
		s.keys[b].mul(s.scores[b*Block:], kvChunk, q.q[r*q.stride:], q.stride, m, dim, false)
	}
	for i := range rows {
		scores := s.scores[i*kvChunk:][:padded]
		if s.limit != 0 {
			softCap(scores, s.limit, s.capped[:padded])
		}
		if q.slopes != nil {
			q.lean(scores, base, r+i)
		}
		for j := range max(0, min(q.sees(r+i)-base, padded)) {
			scores[j] = float32(math.Inf(-1))
		}
		for j := max(0, min(q.end(r+i)-base, padded)); j < padded; j++ {
			scores[j] = float32(math.Inf(-1))
		}
		s.weigh(scores, state+r+i, begin)
	}
	for p, values := range s.values {
		// sum (rows × 32) += scores (rows × n) · values (n × 32)
		values.mul(s.sum[(state+r)*s.width+p*Block:], s.width, s.scores, kvChunk, m, n, !begin)
	}
}

// weigh replaces the scores of a row by exponentials relative to its largest
// score, and rescales the earlier sums.
func (s *attentionScratch) weigh(scores []float32, row int, begin bool) {
	most := tensor.Max(scores)
	if !begin {
		most = max(most, s.most[row])
	}
	if math.IsInf(float64(most), -1) { // nothing is visible yet
		clear(scores)
		if begin {
			s.most[row], s.total[row] = most, 0
		}
		return
	}
	if begin {
		s.most[row], s.total[row] = most, tensor.ExpSum(scores, scores, most)
		return
	}
	total := tensor.ExpSum(scores, scores, most)
	if before := s.most[row]; before != most {
		f := float32(math.Exp(float64(before - most)))
		s.total[row] *= f
		tensor.Scale(s.sum[row*s.width:][:s.width], f)
	}
	s.most[row] = most
	s.total[row] += total
}
