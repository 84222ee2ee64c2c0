package infer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// tiny is a small shape.
func tiny(arch string, vocab int) Config {
	c := Config{
		Arch: arch, Context: 64, Layers: 2, Width: 32, Heads: 4, KVHeads: 2, HeadDim: 16, Hidden: 64, Vocab: vocab, Epsilon: 1e-5,
		Rope: Rope{Dims: 16, Base: 10000, Halves: arch != "llama", OriginalContext: 64},
	}
	if arch == "qwen2" { // whose heads together are as wide as the model
		c.HeadDim, c.Rope.Dims = 8, 8
	}
	return c
}

// random gives weights for a shape, large enough for logits that differ.
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

// open makes a model and a session, which end with the test.
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

// paper computes the logits after tokens as the papers write them, in float64
// and without any cache.
func paper(c Config, w Memory, tokens []int32) []float64 {
	get := func(name string) []float32 { return w[name].Data }
	matvec := func(name string, x []float64, out int) []float64 {
		y := make([]float64, out)
		for i := range y {
			for j, v := range x {
				y[i] += v * float64(get(name + ".weight")[i*len(x)+j])
			}
			if b := get(name + ".bias"); b != nil {
				y[i] += float64(b[i])
			}
		}
		return y
	}
	norm := func(x []float64, gain []float32) []float64 {
		var ms float64
		for _, v := range x {
			ms += v * v / float64(len(x))
		}
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = v / math.Sqrt(ms+float64(c.Epsilon)) * float64(gain[i])
		}
		return y
	}
	rotate := func(x []float64, pos int) {
		n := c.Rope.Dims / 2
		for i := range n {
			angle := float64(pos) * math.Pow(float64(c.Rope.Base), -2*float64(i)/float64(c.Rope.Dims))
			a, b := 2*i, 2*i+1
			if c.Rope.Halves {
				a, b = i, i+n
			}
			x[a], x[b] = x[a]*math.Cos(angle)-x[b]*math.Sin(angle), x[a]*math.Sin(angle)+x[b]*math.Cos(angle)
		}
	}
	x := make([][]float64, len(tokens))
	for t, token := range tokens {
		x[t] = make([]float64, c.Width)
		for i := range x[t] {
			x[t][i] = float64(get("token_embd.weight")[int(token)*c.Width+i])
		}
	}
	D := c.HeadDim
	for l := range c.Layers {
		p := fmt.Sprintf("blk.%d.", l)
		q, k, v := make([][]float64, len(x)), make([][]float64, len(x)), make([][]float64, len(x))
		for t := range x {
			h := norm(x[t], get(p+"attn_norm.weight"))
			q[t], k[t], v[t] = matvec(p+"attn_q", h, c.Heads*D), matvec(p+"attn_k", h, c.KVHeads*D), matvec(p+"attn_v", h, c.KVHeads*D)
			for i := 0; i < c.Heads; i++ {
				if g := get(p + "attn_q_norm.weight"); g != nil {
					copy(q[t][i*D:], norm(q[t][i*D:(i+1)*D], g))
				}
				rotate(q[t][i*D:(i+1)*D], t)
			}
			for i := 0; i < c.KVHeads; i++ {
				if g := get(p + "attn_k_norm.weight"); g != nil {
					copy(k[t][i*D:], norm(k[t][i*D:(i+1)*D], g))
				}
				rotate(k[t][i*D:(i+1)*D], t)
			}
		}
		for t := range x {
			att := make([]float64, c.Heads*D)
			for h := range c.Heads {
				kh := h * c.KVHeads / c.Heads
				score, sum := make([]float64, t+1), 0.0
				for s := range score {
					for d := range D {
						score[s] += q[t][h*D+d] * k[s][kh*D+d]
					}
					score[s] = math.Exp(score[s] / math.Sqrt(float64(D)))
					sum += score[s]
				}
				for s := range score {
					for d := range D {
						att[h*D+d] += score[s] / sum * v[s][kh*D+d]
					}
				}
			}
			for i, o := range matvec(p+"attn_output", att, c.Width) {
				x[t][i] += o
			}
			h := norm(x[t], get(p+"ffn_norm.weight"))
			gate, up := matvec(p+"ffn_gate", h, c.Hidden), matvec(p+"ffn_up", h, c.Hidden)
			for i := range gate {
				gate[i] = gate[i] / (1 + math.Exp(-gate[i])) * up[i]
			}
			for i, o := range matvec(p+"ffn_down", gate, c.Width) {
				x[t][i] += o
			}
		}
	}
	last := norm(x[len(x)-1], get("output_norm.weight"))
	if _, untied := w["output.weight"]; untied {
		return matvec("output", last, c.Vocab)
	}
	return matvec("token_embd", last, c.Vocab)
}

// TestAgainstPaper compares every architecture with the formulas.
func TestAgainstPaper(t *testing.T) {
	tokens := []int32{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5, 0, 2, 8}
	untied := random(tiny("llama", 10), 1)
	untied["output.weight"] = random(tiny("llama", 10), 2)["token_embd.weight"]
	for _, c := range []struct {
		arch    string
		weights Memory
	}{
		{"llama", random(tiny("llama", 10), 1)}, {"llama", untied},
		{"qwen2", random(tiny("qwen2", 10), 3)}, {"qwen3", random(tiny("qwen3", 10), 4)},
	} {
		cfg := tiny(c.arch, 10)
		s := open(t, cfg, c.weights, SessionOptions{KV: "f32"})
		if err := s.Feed(t.Context(), tokens); err != nil {
			t.Fatal(err)
		}
		want := paper(cfg, c.weights, tokens)
		for i, v := range s.Logits() {
			if math.Abs(float64(v)-want[i]) > 1e-4 {
				t.Errorf("%s: logit %d is %v, by the formulas %v", c.arch, i, v, want[i])
			}
		}
	}
}
