package infer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"mm-abi.org/mm/core/tensor"
)

// TestAttention compares chunked attention with the plain softmax in float64
// over the same keys and values, and each result bit for bit with other numbers
// of threads and rows.
func TestAttention(t *testing.T) {
	for _, c := range []struct {
		heads, shared, dim     int
		first, rows, window    int
		limit                  float32
		typ                    tensor.Type
		largest, maxDifference float64
	}{
		{6, 3, 48, 0, 300, 0, 0, tensor.F32, 1, 3e-6},
		{6, 3, 64, 700, 96, 0, 0, tensor.F16, 1, 1e-6},
		{4, 1, 64, 250, 40, 0, 0, tensor.F16, 30, 2e-6}, // scores of several hundred
		{4, 4, 32, 511, 9, 100, 0, tensor.F16, 1, 1e-6},
		{8, 1, 80, 1000, 37, 300, 5, tensor.F32, 1, 2e-6},
		{4, 2, 64, 600, 24, 0, 0, tensor.Q8_0, 1, 1e-6},
		{16, 16, 16, 200, 100, 0, 0, tensor.F16, 1, 3e-6},
	} {
		t.Run(fmt.Sprint(c.heads, "/", c.shared, " ", c.rows, " ", c.typ), func(t *testing.T) {
			cfg := tiny("llama", 16)
			cfg.Heads, cfg.KVHeads, cfg.HeadDim, cfg.Context, cfg.AttentionCap = c.heads, c.heads/c.shared, c.dim, 2048, c.limit
			cfg.Rope.Dims = c.dim
			r := rand.New(rand.NewPCG(uint64(c.first), uint64(c.dim)))
			cache, err := newCache(cacheShape{Layers: cfg.Layers, Heads: cfg.KVHeads, Dim: c.dim}, c.typ)
			if err != nil {
				t.Fatal(err)
			}
			n := c.first + c.rows
			cache.Reserve(n)
			draw := func(x []float32, by float64) []float32 {
				for i := range x {
					x[i] = float32(by * r.NormFloat64())
				}
				return x
			}
			for pos := range n {
				for h := range cfg.KVHeads {
					cache.Store(0, h, pos, draw(make([]float32, c.dim), 1), draw(make([]float32, c.dim), 1))
				}
			}
			queries := draw(make([]float32, c.rows*c.heads*c.dim), c.largest/math.Sqrt(float64(c.dim)))
			weights := random(cfg, 1)
			attend := func(threads, from, rows int) []float32 {
				m, err := New(cfg, weights, Options{Threads: threads})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				m.layers[0].window = c.window
				w := &m.work
				w.input(rows)
				w.begin(newPass(nil, span{cache: cache, first: c.first + from, rows: rows}))
				for i := range rows {
					copy(w.query.row(i, c.heads*c.dim), queries[(from+i)*c.heads*c.dim:])
				}
				w.attend()
				return slices.Clone(w.attended.From(0))
			}
			got := attend(1, 0, c.rows)
			for _, threads := range []int{2, 3} {
				if !slices.Equal(attend(threads, 0, c.rows), got) {
					t.Errorf("other bits with %d threads", threads)
				}
			}
			for _, part := range [][2]int{{0, 1}, {c.rows - 1, c.rows}, {1, 4}, {c.rows / 2, c.rows}} {
				row := c.heads * c.dim
				if !slices.Equal(attend(1, part[0], part[1]-part[0]), got[part[0]*row:part[1]*row]) {
					t.Errorf("other bits for the rows %v alone", part)
				}
			}
			var dot, a, b, most float64
			for h := range c.heads {
				keys, values := readBack(cache, h/c.shared, c.dim, n)
				for i := range c.rows {
					q := queries[(i*c.heads+h)*c.dim:][:c.dim]
					want := softmaxOver(keys, values, q, c.first+i, c.window, float64(c.limit))
					for d, v := range want {
						x := float64(got[(i*c.heads+h)*c.dim+d])
						dot, a, b = dot+x*v, a+x*x, b+v*v
						most = max(most, math.Abs(x-v))
					}
				}
			}
			cosine := dot / math.Sqrt(a*b)
			t.Logf("cosine 1 - %.1e, largest difference %.1e", 1-cosine, most)
			if !(cosine > 1-1e-11) || !(most <= c.maxDifference*max(1, c.largest)) {
				t.Errorf("cosine 1 - %v, largest difference %v", 1-cosine, most)
			}
		})
	}
}

// readBack returns the keys and values of a head below position n: n × D.
func readBack(c *kvCache, head, dim, n int) (keys, values []float32) {
	keyBuf, valBuf := make([]float32, dim*Block), make([]float32, kvChunk*Block)
	keys, values = make([]float32, n*dim), make([]float32, n*dim)
	for base := 0; base < n; base += Block {
		chunk, at := base/kvChunk, base%kvChunk
		k := c.Keys(chunk, 0, head, at/Block, keyBuf)
		for p := base; p < min(base+Block, n); p++ {
			for d := range dim {
				keys[p*dim+d] = k[d*Block+p-base]
			}
		}
		for part := range c.Panels(0) {
			v := c.Values(chunk, 0, head, part, min(n-base, Block)+at, valBuf)
			for p := base; p < min(base+Block, n); p++ {
				copy(values[p*dim+part*Block:(p+1)*dim], v[(at+p-base)*Block:][:Block])
			}
		}
	}
	return keys, values
}

// softmaxOver returns Σ p·v with p = softmax(q·k) over the positions visible to
// a query at pos.
func softmaxOver(keys, values, q []float32, pos, window int, limit float64) []float64 {
	from, dim := 0, len(q)
	if window > 0 {
		from = max(0, pos-window+1)
	}
	var scores []float64
	most := math.Inf(-1)
	for p := from; p <= pos; p++ {
		var s float64
		for d, k := range keys[p*dim : (p+1)*dim] {
			s += float64(q[d]) * float64(k)
		}
		if limit != 0 {
			s = limit * math.Tanh(s/limit)
		}
		scores = append(scores, s)
		most = max(most, s)
	}
	var total float64
	out := make([]float64, dim)
	for i, s := range scores {
		weight := math.Exp(s - most)
		total += weight
		for d, v := range values[(from+i)*dim : (from+i+1)*dim] {
			out[d] += weight * float64(v)
		}
	}
	for d := range out {
		out[d] /= total
	}
	return out
}
