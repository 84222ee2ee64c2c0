package infer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// tiny returns a small shape.
func tiny(arch string, vocab int) Config {
	c := Config{
		Arch: arch, Context: 64, Layers: 2, Width: 32, Heads: 4, KVHeads: 2, HeadDim: 16, Hidden: 64, Vocab: vocab, Epsilon: 1e-5,
		Rope: Rope{Dims: 16, Base: 10000, Halves: arch != "llama", OriginalContext: 64},
	}
	if arch == "qwen2" { // the heads together are as wide as the model
		c.HeadDim, c.Rope.Dims = 8, 8
	}
	return c
}

// random returns weights for a shape, large enough to give distinct logits.
func random(c Config, seed uint64) Memory {
	r := rand.New(rand.NewPCG(seed, 99))
	m := make(Memory)
	fill := func(name string, scale, offset float64, dims ...int) {
		n := 1
		for _, d := range dims {
			n *= d
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(offset + scale*r.NormFloat64())
		}
		m[name] = Array{dims, x}
	}
	matrix := func(name string, in, out int) {
		fill(name+".weight", 1/math.Sqrt(float64(in)), 0, in, out)
		if part := strings.Split(name, ".")[2]; c.Arch == "qwen2" && (part == "attn_q" || part == "attn_k" || part == "attn_v") {
			fill(name+".bias", 0.2, 0, out)
		}
	}
	fill("token_embd.weight", 1, 0, c.Width, c.Vocab)
	fill("output_norm.weight", 0.1, 1, c.Width)
	for i := range c.Layers {
		p := fmt.Sprintf("blk.%d.", i)
		fill(p+"attn_norm.weight", 0.1, 1, c.Width)
		fill(p+"ffn_norm.weight", 0.1, 1, c.Width)
		matrix(p+"attn_q", c.Width, c.Heads*c.HeadDim)
		matrix(p+"attn_k", c.Width, c.KVHeads*c.HeadDim)
		matrix(p+"attn_v", c.Width, c.KVHeads*c.HeadDim)
		matrix(p+"attn_output", c.Heads*c.HeadDim, c.Width)
		matrix(p+"ffn_gate", c.Width, c.Hidden)
		matrix(p+"ffn_up", c.Width, c.Hidden)
		matrix(p+"ffn_down", c.Hidden, c.Width)
		if c.Arch == "qwen3" {
			fill(p+"attn_q_norm.weight", 0.1, 1, c.HeadDim)
			fill(p+"attn_k_norm.weight", 0.1, 1, c.HeadDim)
		}
	}
	return m
}

// open creates a model and a session, closed at the end of the test.
func open(t testing.TB, c Config, weights Tensors, opt SessionOptions) *Session {
	t.Helper()
	m, err := New(c, weights, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	s, err := m.NewSession(opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
