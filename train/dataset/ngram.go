package dataset

import (
	"errors"
	"math"
	"math/bits"
)

// Baselines are the mean cross-entropies of n-gram models on held-out tokens,
// in nats, over the predictions of a trained model.
type Baselines struct {
	Predictions int     `json:"predictions"`
	Uniform     float64 `json:"uniform"`
	Unigram     float64 `json:"unigram"`
	Bigram      float64 `json:"bigram"`
	Trigram     float64 `json:"trigram"`
}

// NGrams counts in train and predicts held, with v token ids. Every order is
// interpolated with the one below,
//
//	p(w|h) = λ·count(h,w)/count(h) + (1-λ)·p(w|shorter h),
//
// down to unigrams with one added to every count (Jelinek and Mercer, 1980). λ
// depends on the power of two below count(h) and is estimated by expectation
// maximization on the last twentieth of train against counts of the rest, so
// that nothing is fitted to the measured tokens; then all of train is counted.
// Contexts do not cross documents, and neither a document's first token nor
// context tokens are predicted.
func NGrams(train, held *Tokens, v int) (Baselines, error) {
	if v < 1 || v > 1<<20 {
		return Baselines{}, errors.New("n-grams: vocabulary size out of range: want 1 to 2²⁰ tokens")
	}
	if held == nil {
		return Baselines{}, errors.New("n-grams: no held-out data")
	}
	if err := errors.Join(train.Check(v), held.Check(v)); err != nil {
		return Baselines{}, err
	}
	b := fitted(train, v).measure(held)
	if b.Predictions == 0 {
		return Baselines{}, errors.New("n-grams: nothing to predict")
	}
	return b, nil
}

// NGramsOf is [NGrams] for each of several held-out documents.
func NGramsOf(train *Tokens, held []*Tokens, v int) ([]Baselines, error) {
	if v < 1 || v > 1<<20 {
		return nil, errors.New("n-grams: vocabulary size out of range: want 1 to 2²⁰ tokens")
	}
	err := train.Check(v)
	for _, t := range held {
		err = errors.Join(err, t.Check(v))
	}
	if err != nil {
		return nil, err
	}
	c, out := fitted(train, v), make([]Baselines, len(held))
	for i, t := range held {
		out[i] = c.measure(t)
	}
	return out, nil
}

// fitted counts train and estimates the weights of the orders.
func fitted(train *Tokens, v int) *counts {
	cut := train.Len() - train.Len()/20
	c := count(train, 0, cut, v)
	c.fit(train, cut)
	weights := c.weight
	c = count(train, 0, train.Len(), v)
	c.weight = weights
	return c
}

// measure returns the cross-entropies on held, zero if nothing is predicted.
func (c *counts) measure(held *Tokens) Baselines {
	b := Baselines{Uniform: math.Log(float64(c.v))}
	for g := range grams(held, 0, held.Len()) {
		b.Predictions++
		p := c.predict(g)
		b.Unigram -= math.Log(p[0])
		b.Bigram -= math.Log(p[1])
		b.Trigram -= math.Log(p[2])
	}
	if n := float64(b.Predictions); n > 0 {
		b.Unigram, b.Bigram, b.Trigram = b.Unigram/n, b.Bigram/n, b.Trigram/n
	}
	return b
}

// gram is one prediction: word after prev after prev2. If prev2 is negative,
// prev begins the document.
type gram struct{ prev2, prev, word int32 }

// grams yields the predictions of the tokens [lo, hi).
func grams(t *Tokens, lo, hi int) func(yield func(gram) bool) {
	return func(yield func(gram) bool) {
		ids := make([]int32, hi-lo)
		t.Read(ids, lo)
		doc := 0
		g := gram{-1, -1, -1}
		span := t.spanAt(lo)
		for i, id := range ids {
			for doc < len(t.docs) && t.docs[doc] <= int64(lo+i) {
				if t.docs[doc] == int64(lo+i) {
					g = gram{-1, -1, -1}
				}
				doc++
			}
			g.prev2, g.prev, g.word = g.prev, g.word, id
			for span < len(t.context) && t.context[span].to <= int64(lo+i) {
				span++
			}
			next := g
			if span < len(t.context) && t.context[span].from <= int64(lo+i) {
				next.word = -1 // context
				if t.context[span].from == int64(lo+i) {
					next.word = int32(t.context[span].end)
				}
			}
			if g.prev >= 0 && next.word >= 0 && !yield(next) {
				return
			}
		}
	}
}

// buckets of context counts, by number of bits.
const buckets = 20

// counts holds n-gram counts and the weight of each order's estimate.
type counts struct {
	v      int
	total  float64
	one    []float64
	ctx1   []float64 // occurrences of a token before a word
	ctx2   map[uint64]float64
	two    map[uint64]float64
	three  map[[2]uint64]float64
	weight [2][buckets]float64
}

func pair(a, b int32) uint64 { return uint64(a)<<32 | uint64(uint32(b)) }

func count(t *Tokens, lo, hi, v int) *counts {
	c := &counts{v: v, one: make([]float64, v), ctx1: make([]float64, v), ctx2: map[uint64]float64{}, two: map[uint64]float64{}, three: map[[2]uint64]float64{}}
	for g := range grams(t, lo, hi) {
		c.total++
		c.one[g.word]++
		c.ctx1[g.prev]++
		c.two[pair(g.prev, g.word)]++
		if g.prev2 >= 0 {
			h := pair(g.prev2, g.prev)
			c.ctx2[h]++
			c.three[[2]uint64{h, uint64(g.word)}]++
		}
	}
	return c
}

// parts returns the maximum-likelihood estimates of the bigram and the trigram
// and the counts of their contexts.
func (c *counts) parts(g gram) (ml [2]float64, ctx [2]float64) {
	if ctx[0] = c.ctx1[g.prev]; ctx[0] > 0 {
		ml[0] = c.two[pair(g.prev, g.word)] / ctx[0]
	}
	if g.prev2 >= 0 {
		h := pair(g.prev2, g.prev)
		if ctx[1] = c.ctx2[h]; ctx[1] > 0 {
			ml[1] = c.three[[2]uint64{h, uint64(g.word)}] / ctx[1]
		}
	}
	return ml, ctx
}

func bucket(n float64) int { return min(bits.Len(uint(n)), buckets-1) }

// predict returns the probability of the word by orders one to three.
func (c *counts) predict(g gram) (p [3]float64) {
	p[0] = (c.one[g.word] + 1) / (c.total + float64(c.v))
	ml, ctx := c.parts(g)
	for k := range ml {
		w := 0.0
		if ctx[k] > 0 {
			w = c.weight[k][bucket(ctx[k])]
		}
		p[k+1] = w*ml[k] + (1-w)*p[k]
	}
	return p
}

// fit estimates the weights, the bigram's first, on the tokens from lo.
func (c *counts) fit(t *Tokens, lo int) {
	for k := range c.weight {
		for b := range c.weight[k] {
			c.weight[k][b] = 0.5
		}
		for range 30 {
			var order, all [buckets]float64
			for g := range grams(t, lo, t.Len()) {
				ml, ctx := c.parts(g)
				if ctx[k] == 0 {
					continue
				}
				b := bucket(ctx[k])
				all[b]++
				order[b] += c.weight[k][b] * ml[k] / c.predict(g)[k+1]
			}
			for b := range all {
				if all[b] > 0 {
					// One more in the denominator keeps the weight below 1: a
					// word not seen after a rare context stays possible.
					c.weight[k][b] = order[b] / (all[b] + 1)
				}
			}
		}
	}
}
