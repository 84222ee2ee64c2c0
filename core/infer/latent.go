package infer

import (
	"slices"

	"mm-abi.org/mm/core/quant/panel"
	"mm-abi.org/mm/core/tensor"
)

// latent holds the matrices of latent attention except a layer's query and key:
// Q or C → H·(K+P) and C → R+P.
type latent struct {
	down         linear   // C → Q, or none
	queryNorm    norm     // Q
	norm         norm     // R
	keys, values []linear // of each head: K → R and R → V
}

func (y *latent) bytes() int {
	if y == nil {
		return 0
	}
	n := y.down.bytes()
	for _, l := range slices.Concat(y.keys, y.values) {
		n += l.bytes()
	}
	return n
}

// loadLatent loads the matrices of latent attention.
func (y *layer) loadLatent(l *loader, c Config) {
	a, style := c.Latent, c.Style()
	o := &latent{keys: make([]linear, c.Heads), values: make([]linear, c.Heads)}
	y.latent = o
	y.key = l.linear("attn_kv_a_mqa", c.Width, c.HeadDim)
	o.norm = l.norm("attn_kv_a_norm", a.Rank, style)
	if queries := c.Heads * (a.Key + c.Rope.Dims); a.QueryRank > 0 {
		o.down = l.linear("attn_q_a", c.Width, a.QueryRank)
		o.queryNorm = l.norm("attn_q_a_norm", a.QueryRank, style)
		y.query = l.linear("attn_q_b", a.QueryRank, queries)
	} else {
		y.query = l.linear("attn_q", c.Width, queries)
	}
	for h := range c.Heads {
		o.keys[h] = l.slice("attn_k_b", nil, h, c.Heads, a.Key, a.Rank)
		o.values[h] = l.slice("attn_v_b", nil, h, c.Heads, a.Rank, a.Value)
	}
}

// latentWork holds the buffers of latent attention. As a task its indices are
// heads.
type latentWork struct {
	w     *work
	low   matrix      // T×Q
	mid   panel.Batch // T×Q
	wide  matrix      // T×(H·(K+P))
	heads []panel.Batch
	part  []matrix    // of a head, one a thread
	out   panel.Batch // T×(H·V)

	layer  *layer
	values bool
}

func (l *latentWork) resize(m *Model, rows int) {
	c := &m.cfg
	a := c.Latent
	if a.QueryRank > 0 {
		l.low.resize(rows, a.QueryRank)
		l.mid.Resize(rows, a.QueryRank)
	}
	l.wide.resize(rows, c.Heads*(a.Key+c.Rope.Dims))
	if l.heads == nil {
		l.heads = make([]panel.Batch, m.threads.Threads())
		l.part = make([]matrix, m.threads.Threads())
	}
	for i := range l.part {
		l.part[i].resize(rows, max(a.Rank, a.Value))
	}
}

// compress sets key to the latent vectors and the shared keys, and query to the
// queries of latent vectors.
func (w *work) compress(y *layer) {
	c, l := &w.m.cfg, &w.latent
	l.layer, l.values = y, false
	if y.latent.down.weight == nil {
		w.multiply(&w.normed, term{&y.key, &w.key}, term{&y.query, &l.wide})
	} else {
		w.multiply(&w.normed, term{&y.key, &w.key}, term{&y.latent.down, &l.low})
		for t := range w.rows {
			y.latent.queryNorm.apply(l.mid.Row(t), l.low.row(t, c.Latent.QueryRank), c.Epsilon)
		}
		w.ready(&l.mid)
		w.multiply(&l.mid, term{&y.query, &l.wide})
	}
	w.observeHeads(y.latent.keys)
	w.m.threads.For(c.Heads, 1, l)
}

// expand returns the values of the latent vectors that attention summed.
func (w *work) expand(y *layer) *panel.Batch {
	c, l := &w.m.cfg, &w.latent
	l.layer, l.values = y, true
	l.out.Resize(w.rows, c.Heads*c.Latent.Value)
	w.observeHeads(y.latent.values)
	w.m.threads.For(c.Heads, 1, l)
	w.ready(&l.out)
	return &l.out
}

// observeHeads reports the inputs of the matrices of all heads.
func (w *work) observeHeads(by []linear) {
	if w.observer == nil {
		return
	}
	for h := range by {
		w.latent.gather(&w.latent.heads[0], h)
		w.observe(&w.latent.heads[0], term{by: &by[h]})
	}
}

// gather copies the input of a head.
func (l *latentWork) gather(batch *panel.Batch, head int) {
	w, c := l.w, &l.w.m.cfg
	a := c.Latent
	n := a.Key
	if l.values {
		n = a.Rank
	}
	batch.Resize(w.rows, n)
	for t := range w.rows {
		if l.values {
			copy(batch.Row(t), w.attended.Row(t)[head*n:])
		} else {
			copy(batch.Row(t), l.wide.row(t, c.Heads*(n+c.Rope.Dims))[head*(n+c.Rope.Dims):])
		}
	}
	for i := range batch.Tiles() {
		prepareTile(batch, i)
	}
}

// Do multiplies the keys' parts of queries by the matrices of keys, or sums of
// latent vectors by those of values.
func (l *latentWork) Do(thread, lo, hi int) {
	w, c := l.w, &l.w.m.cfg
	a := c.Latent
	batch, part := &l.heads[thread], &l.part[thread]
	for h := lo; h < hi; h++ {
		l.gather(batch, h)
		by := &l.layer.latent.keys[h]
		if l.values {
			by = &l.layer.latent.values[h]
		}
		by.mul(part, batch, 0, unitsOf(by), &w.scratch[thread])
		for t := range w.rows {
			if l.values {
				copy(l.out.Row(t)[h*a.Value:], part.row(t, a.Value))
				continue
			}
			q := w.query.row(t, c.Heads*c.HeadDim)[h*c.HeadDim:][:c.HeadDim]
			copy(q, part.row(t, a.Rank))
			copy(q[a.Rank:], l.wide.row(t, c.Heads*(a.Key+c.Rope.Dims))[h*(a.Key+c.Rope.Dims)+a.Key:])
		}
	}
}

// placeLatent stores the latent vector and the shared key of row t, and scales
// and rotates its queries.
func (w *work) placeLatent(t int) {
	c, layer := &w.m.cfg, w.attention.layer
	y, rank := &w.m.layers[layer], c.Latent.Rank
	n := c.Rope.Dims / 2
	cos, sin := w.angle[0].cos[t*n:(t+1)*n], w.angle[0].sin[t*n:(t+1)*n]
	k := w.key.row(t, c.HeadDim)
	y.latent.norm.apply(k[:rank], k[:rank], c.Epsilon)
	tensor.RopePairs(k[rank:], cos, sin)
	q := w.query.row(t, c.Heads*c.HeadDim)
	for h := range c.Heads {
		tensor.RopePairs(q[h*c.HeadDim+rank:][:c.Rope.Dims], cos, sin)
	}
	tensor.Scale(q, w.m.attentionScale*w.cooling(t))
	cache := w.spans[w.owner[t]].cache
	cache.Spread(y.slot, q)
	cache.Spread(y.slot, k)
	cache.Store(y.slot, 0, w.position(t), k, nil)
}
