package infer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"mm-abi.org/mm/core/tensor"
)

// TestStore reads back stored positions, for head sizes below, at, between and
// above the width of a panel, stored out of order.
func TestStore(t *testing.T) {
	tolerance := map[tensor.Type]float64{tensor.F32: 0, tensor.F16: 0x1p-11, tensor.Q8_0: 0.5/127 + 0x1p-10}
	for _, dim := range []int{8, 32, 48, 64, 80, 128} {
		for typ, tol := range tolerance {
			c, err := newCache(cacheShape{Layers: 2, Heads: 3, Dim: dim}, typ)
			if err != nil {
				t.Fatal(err)
			}
			const n = kvChunk + 40
			c.Reserve(n)
			r := rand.New(rand.NewPCG(uint64(dim), uint64(typ)))
			rows := make([]float32, n*2*3*2*dim)
			for i := range rows {
				rows[i] = float32(r.NormFloat64())
			}
			at := func(layer, head, pos, kind int) []float32 {
				return rows[(((layer*3+head)*n+pos)*2+kind)*dim:][:dim]
			}
			for _, pos := range r.Perm(n) {
				for layer := range 2 {
					for head := range 3 {
						c.Store(layer, head, pos, at(layer, head, pos, 0), at(layer, head, pos, 1))
					}
				}
			}
			check := func(got float32, want []float32, d int, what string) {
				size := 1.0
				if typ == tensor.Q8_0 {
					size = 0
					for _, v := range want[d/32*32 : min(d/32*32+32, dim)] {
						size = max(size, math.Abs(float64(v)))
					}
				} else {
					size = max(0x1p-14, math.Abs(float64(want[d])))
				}
				if math.Abs(float64(got-want[d])) > tol*size {
					t.Fatalf("%v D=%d: %s is %v, stored was %v", typ, dim, what, got, want[d])
				}
			}
			buf := make([]float32, kvChunk*32*4)
			for pos := range n {
				for layer := range 2 {
					for head := range 3 {
						k := c.Keys(pos/kvChunk, layer, head, pos%kvChunk/Block, buf)
						for d := range dim {
							check(k[d*Block+pos%Block], at(layer, head, pos, 0), d, "key")
						}
						for p := range c.Panels(0) {
							v := c.Values(pos/kvChunk, layer, head, p, pos%kvChunk+1, buf)
							for d := p * Block; d < (p+1)*Block; d++ {
								x := v[pos%kvChunk*Block+d%Block]
								if d >= dim {
									if x != 0 {
										t.Fatalf("padding is %v", x)
									}
									continue
								}
								check(x, at(layer, head, pos, 1), d, "value")
							}
						}
					}
				}
			}
		}
	}
}

func TestMemory(t *testing.T) {
	c, err := newCache(cacheShape{Layers: 30, Heads: 3, Dim: 64}, tensor.F16)
	if err != nil {
		t.Fatal(err)
	}
	if c.Bytes() != 0 {
		t.Error("an empty cache takes memory")
	}
	c.Reserve(kvChunk + 1)
	if want := 2 * kvChunk * 30 * 3 * 64 * 2 * 2; c.Bytes() != want {
		t.Errorf("two chunks take %d bytes, want %d", c.Bytes(), want)
	}
	c.Release(1)
	if want := kvChunk * 30 * 3 * 64 * 2 * 2; c.Bytes() != want {
		t.Errorf("one chunk takes %d bytes, want %d", c.Bytes(), want)
	}
}

// TestLatentCache: values within keys take no memory and come back.
func TestLatentCache(t *testing.T) {
	for typ, near := range map[tensor.Type]float64{tensor.F32: 1, tensor.F16: 0.99999, tensor.Q8_0: 0.999} {
		c, err := newCache(cacheShape{Layers: 2, Heads: 1, Dim: 80, Latent: 64}, typ)
		if err != nil {
			t.Fatal(err)
		}
		bytes := 2 * 80 * kvChunk * elemBytes(typ)
		if typ == tensor.Q8_0 {
			bytes += 2 * 3 * kvChunk * 2
		}
		if c.Reserve(1); c.Bytes() != bytes {
			t.Errorf("%v: %d bytes, want %d", typ, c.Bytes(), bytes)
		}
		key := make([]float32, 80)
		r := rand.New(rand.NewPCG(1, 2))
		for i := range key {
			key[i] = float32(r.NormFloat64())
		}
		stored := slices.Clone(key)
		c.Spread(0, stored)
		c.Store(1, 0, 33, stored, nil)
		var s attentionScratch
		s.resize(c.shape, c.Panels(0), 1)
		s.read(c, 0, 1, 0, 80, 40)
		var got []float32
		for p := range c.Panels(0) {
			got = append(got, s.values[p].floats[33*Block:][:Block]...)
		}
		c.Spread(0, got)
		if len(got) != 64 || similar(got, key[:64]) < near {
			t.Errorf("%v: got %v, want %v", typ, got, key[:64])
		}
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := newCache(cacheShape{Layers: 1, Heads: 1, Dim: 64}, tensor.Q4_0); err == nil {
		t.Error("a type that is not stored is accepted")
	}
	if _, err := newCache(cacheShape{Layers: 1, Dim: 64}, tensor.F16); err == nil {
		t.Error("no heads are accepted")
	}
}

// TestSpread: products of keys and queries are preserved, other types are
// unchanged, and keys with a dimension that is always large keep their products
// far better as bytes.
func TestSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 9))
	for _, dim := range []int{8, 80, 64, 128} {
		exact, err := newCache(cacheShape{Layers: 1, Heads: 1, Dim: dim}, tensor.F32)
		if err != nil {
			t.Fatal(err)
		}
		bytes, err := newCache(cacheShape{Layers: 1, Heads: 1, Dim: dim}, tensor.Q8_0)
		if err != nil {
			t.Fatal(err)
		}
		bytes.Reserve(1)
		buf := make([]float32, dim*Block)
		var worse, better float64
		for range 200 {
			k, q := make([]float32, dim), make([]float32, dim)
			for i := range k {
				k[i], q[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
			}
			k[3] += 40 // ignored by the query
			q[3] = 0
			product := func(q []float32, stored []float32) (sum float64) {
				bytes.Store(0, 0, 0, stored, stored)
				for d, v := range bytes.Keys(0, 0, 0, 0, buf) {
					if d%Block == 0 {
						sum += float64(v) * float64(q[d/Block])
					}
				}
				return sum
			}
			want := float64(tensor.Dot(q, k))
			plain := product(q, k)
			same := slices.Clone(k)
			if exact.Spread(0, same); !slices.Equal(same, k) {
				t.Fatal("a cache of floats spreads")
			}
			bytes.Spread(0, k)
			bytes.Spread(0, q)
			if got := float64(tensor.Dot(q, k)); math.Abs(got-want) > 1e-4 {
				t.Fatalf("D=%d: %v became %v", dim, want, got)
			}
			spread := product(q, k)
			worse += (plain - want) * (plain - want)
			better += (spread - want) * (spread - want)
		}
		t.Logf("D=%d: squared errors %.4f, spread %.4f", dim, worse, better)
		if dim >= 64 && better > worse/5 {
			t.Errorf("D=%d: squared errors %.4f, spread %.4f", dim, worse, better)
		}
	}
}
