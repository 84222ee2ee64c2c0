package infer

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/infer/adapter"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/tools/libllama"
)

// randomAdapter returns an adapter of every matrix of the layers.
func randomAdapter(c Config, rank int, dora bool, seed uint64) adapter.Adapter {
	r := rand.New(rand.NewPCG(seed, 5))
	draw := func(n int, scale, offset float64) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(offset + scale*r.NormFloat64())
		}
		return x
	}
	a := make(adapter.Adapter)
	queries, keys := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	for i := range c.Layers {
		for _, m := range []struct {
			name    string
			in, out int
		}{
			{"attn_q", c.Width, queries}, {"attn_k", c.Width, keys}, {"attn_v", c.Width, keys}, {"attn_output", queries, c.Width},
			{"ffn_gate", c.Width, c.Hidden}, {"ffn_up", c.Width, c.Hidden}, {"ffn_down", c.Hidden, c.Width},
		} {
			change := adapter.Change{
				Rank: rank, In: m.in, Out: m.out, Scale: 16 / float32(rank),
				A: draw(rank*m.in, 0.1, 0), B: draw(m.out*rank, 0.05, 0),
			}
			if dora {
				change.Magnitude = draw(m.out, 0.1, 1)
			}
			a[fmt.Sprintf("blk.%d.%s.weight", i, m.name)] = change
		}
	}
	return a
}

// writeAdapter stores an adapter in a GGUF file.
func writeAdapter(t testing.TB, arch string, a adapter.Adapter) string {
	t.Helper()
	kvs := []gguf.KV{
		{Key: gguf.KeyArchitecture, Value: arch}, {Key: "general.type", Value: "adapter"},
		{Key: "adapter.type", Value: "lora"}, {Key: "adapter.lora.alpha", Value: float32(16)},
	}
	var sources []gguf.Source
	add := func(name string, v []float32, dims ...int) {
		b := make([]byte, 4*len(v))
		quant.Quantize(b, v, tensor.F32)
		sources = append(sources, gguf.Source{Name: name, Type: tensor.F32, Dims: dims, Data: gguf.Bytes(b)})
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		c := a[name]
		add(name+".lora_a", c.A, c.In, c.Rank)
		add(name+".lora_b", c.B, c.Rank, c.Out)
		if c.Magnitude != nil {
			add(name+".lora_magnitude", c.Magnitude, c.Out)
		}
	}
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gguf.Write(f, kvs, sources); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// writePEFT writes an adapter in PEFT's format: query and key rows that were reordered
// for GGUF have their former order.
func writePEFT(t testing.TB, a adapter.Adapter, c Config, extra string) string {
	t.Helper()
	dir := t.TempDir()
	names := map[string]string{
		"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
		"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
	}
	var sources []safetensors.Source
	add := func(name string, v []float32, shape ...int) {
		b := make([]byte, 4*len(v))
		quant.Quantize(b, v, tensor.F32)
		sources = append(sources, safetensors.Source{Name: name, DType: safetensors.F32, Shape: shape, Data: safetensors.Bytes(b)})
	}
	dora := false
	for name, ch := range a {
		dora = dora || ch.Magnitude != nil
		p := strings.Split(name, ".")
		base := "base_model.model.model.layers." + p[1] + "." + names[p[2]] + "."
		b, magnitude := ch.B, ch.Magnitude
		if !c.Rope.Halves && c.Arch != "ernie4_5" && (p[2] == "attn_q" || p[2] == "attn_k") {
			b = toHalves(b, ch.Rank, c.HeadDim)
			magnitude = toHalves(magnitude, 1, c.HeadDim)
		}
		add(base+"lora_A.weight", ch.A, ch.Rank, ch.In)
		add(base+"lora_B.weight", b, ch.Out, ch.Rank)
		if magnitude != nil {
			add(base+"lora_magnitude_vector", magnitude, ch.Out)
		}
	}
	f, err := os.Create(filepath.Join(dir, "adapter_model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := safetensors.Write(f, nil, sources); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := `{"peft_type": "LORA", "lora_alpha": 16, "bias": "none", "use_dora": ` + strconv.FormatBool(dora) + extra + `}`
	if err := os.WriteFile(filepath.Join(dir, "adapter_config.json"), []byte(cfg), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// toHalves moves pairs of rows 2i, 2i+1 of a head to i, i+D/2.
func toHalves(v []float32, width, dim int) []float32 {
	if v == nil {
		return nil
	}
	out := make([]float32, len(v))
	for row := range len(v) / width {
		h, i := row/dim, row%dim
		to := h*dim + i%2*dim/2 + i/2
		copy(out[to*width:(to+1)*width], v[row*width:(row+1)*width])
	}
	return out
}

// TestAdapters: an adapter next to the weights, merged by the engine, and
// mergeChanges by the formulas gives the same logits, from GGUF and from PEFT, one by
// one and in a batch.
func TestAdapters(t *testing.T) {
	tokens := []int32{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3}
	for _, arch := range []string{"llama", "qwen2", "ernie4_5"} {
		for _, dora := range []bool{false, true} {
			cfg := tiny(arch, 10)
			cfg.Rope.Halves = cfg.Style().Halves
			weights := random(cfg, 1)
			a := randomAdapter(cfg, 4, dora, 2)
			changed := maps.Clone(weights)
			for name, c := range a {
				w := slices.Clone(weights[name].Data)
				byFormula(w, c)
				changed[name] = Array{weights[name].Dims, w}
			}
			want := formulas(cfg, changed).logits(tokens)
			if plain := formulas(cfg, weights).logits(tokens); math.Abs(plain[0]-want[0]) < 0.01 {
				t.Fatal("the adapter has no effect")
			}
			for kind, path := range map[string]string{"GGUF": writeAdapter(t, cfg.Arch, a), "PEFT": writePEFT(t, a, cfg, "")} {
				for _, merge := range []bool{false, true} {
					m, err := New(cfg, weights, Options{Threads: 2, Adapters: []AdapterOptions{{Path: path}}, MergeAdapters: merge})
					if err != nil {
						t.Fatal(err)
					}
					defer m.Close()
					s, err := m.NewSession(SessionOptions{KV: "f32"})
					if err != nil {
						t.Fatal(err)
					}
					if err := s.Feed(t.Context(), tokens); err != nil {
						t.Fatal(err)
					}
					together := slices.Clone(s.Logits())
					for i, v := range together {
						if math.Abs(float64(v)-want[i]) > 2e-4 {
							t.Errorf("%s dora=%v %s merge=%v: logit %d is %v, by the formulas %v", arch, dora, kind, merge, i, v, want[i])
						}
					}
					s.Truncate(0)
					for _, token := range tokens {
						if err := s.Feed(t.Context(), []int32{token}); err != nil {
							t.Fatal(err)
						}
					}
					if !slices.Equal(together, s.Logits()) {
						t.Errorf("%s dora=%v %s merge=%v: a batch gives other logits", arch, dora, kind, merge)
					}
				}
			}
		}
	}
}

// byFormula returns W + s·B·A, with rows scaled to the magnitudes, if any.
func byFormula(w []float32, c adapter.Change) {
	for n := range c.Out {
		var sum float64
		for k := range c.In {
			v := float64(w[n*c.In+k])
			for r := range c.Rank {
				v += float64(c.Scale) * float64(c.B[n*c.Rank+r]) * float64(c.A[r*c.In+k])
			}
			w[n*c.In+k] = float32(v)
			sum += v * v
		}
		if c.Magnitude != nil {
			for k := range c.In {
				w[n*c.In+k] *= float32(float64(c.Magnitude[n]) / math.Sqrt(sum))
			}
		}
	}
}

// TestAdapterStrength: an adapter applied twice at half strength equals the
// adapter.
func TestAdapterStrength(t *testing.T) {
	cfg := tiny("llama", 10)
	weights := random(cfg, 1)
	path := writeAdapter(t, cfg.Arch, randomAdapter(cfg, 4, false, 2))
	logits := func(opts ...AdapterOptions) []float32 {
		m, err := New(cfg, weights, Options{Threads: 1, Adapters: opts})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		s, err := m.NewSession(SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Feed(t.Context(), []int32{1, 2, 3}); err != nil {
			t.Fatal(err)
		}
		return s.Logits()
	}
	full, halves := logits(AdapterOptions{Path: path}), logits(AdapterOptions{path, 0.5}, AdapterOptions{path, 0.5})
	for i := range full {
		if math.Abs(float64(full[i]-halves[i])) > 1e-4 {
			t.Errorf("logit %d is %v, with two halves %v", i, full[i], halves[i])
		}
	}
}

func TestAdapterRefused(t *testing.T) {
	cfg := tiny("llama", 10)
	weights := random(cfg, 1)
	good := randomAdapter(cfg, 4, false, 2)
	with := func(change func(adapter.Adapter)) string {
		a := maps.Clone(good)
		change(a)
		return writeAdapter(t, cfg.Arch, a)
	}
	few := adapter.Adapter{"blk.0.attn_q.weight": good["blk.0.attn_q.weight"]}
	for name, c := range map[string]struct {
		opts []AdapterOptions
		want string
	}{
		"absent":          {[]AdapterOptions{{Path: "nowhere"}}, "no such file"},
		"unknown part":    {[]AdapterOptions{{Path: with(func(a adapter.Adapter) { a["blk.9.attn_q.weight"] = a["blk.0.attn_q.weight"] })}}, "not an adaptable matrix"},
		"embedding":       {[]AdapterOptions{{Path: with(func(a adapter.Adapter) { a["token_embd.weight"] = a["blk.0.attn_q.weight"] })}}, "not an adaptable matrix"},
		"wrong size":      {[]AdapterOptions{{Path: with(func(a adapter.Adapter) { a["blk.0.attn_q.weight"] = a["blk.0.ffn_down.weight"] })}}, "shape mismatch for tensor blk.0.attn_q.weight"},
		"dora strength":   {[]AdapterOptions{{Path: writeAdapter(t, cfg.Arch, randomAdapter(cfg, 2, true, 3)), Scale: 0.5}}, "strength"},
		"dora second":     {[]AdapterOptions{{Path: writeAdapter(t, cfg.Arch, few)}, {Path: writeAdapter(t, cfg.Arch, randomAdapter(cfg, 2, true, 3))}}, "must be the first"},
		"another model":   {[]AdapterOptions{{Path: writeAdapter(t, "qwen2", few)}}, "architecture"},
		"a model":         {[]AdapterOptions{{Path: write(t, cfg, weights, matrices(tensor.F32))}}, "general.type"},
		"peft type":       {[]AdapterOptions{{Path: writePEFT(t, good, cfg, `, "peft_type": "IA3"`)}}, "peft_type"},
		"peft bias":       {[]AdapterOptions{{Path: writePEFT(t, good, cfg, `, "bias": "all"`)}}, "biases"},
		"peft save":       {[]AdapterOptions{{Path: writePEFT(t, good, cfg, `, "modules_to_save": ["embed"]`)}}, "modules_to_save"},
		"peft activated":  {[]AdapterOptions{{Path: writePEFT(t, good, cfg, `, "alora_invocation_tokens": [1]`)}}, "activated"},
		"peft transposed": {[]AdapterOptions{{Path: writePEFT(t, good, cfg, `, "fan_in_fan_out": true`)}}, "fan_in_fan_out"},
	} {
		m, err := New(cfg, weights, Options{Threads: 1, Adapters: c.opts})
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
}

// TestParityAdapter compares a LoRA adapter with llama.cpp.
func TestParityAdapter(t *testing.T) {
	c := native(t)
	cfg := tiny("llama", 100)
	weights := random(cfg, 1)
	path := write(t, cfg, weights, matrices(tensor.F32))
	lora := writeAdapter(t, cfg.Arch, randomAdapter(cfg, 4, false, 2))
	if _, err := c.Do(libllama.Request{Op: "load", Path: path, Threads: 1, Context: 64}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(libllama.Request{Op: "adapter", Path: lora, Scale: 0.7}); err != nil {
		t.Fatal(err)
	}
	tokens := []int32{5, 99, 3, 42, 17}
	theirs, err := c.Do(libllama.Request{Op: "feed", Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	m, err := Load(path, Options{Threads: 1, Adapters: []AdapterOptions{{lora, 0.7}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession(SessionOptions{KV: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Feed(t.Context(), tokens); err != nil {
		t.Fatal(err)
	}
	cos := cosine(s.Logits(), theirs.Logits[len(tokens)-1])
	t.Logf("cosine %.7f", cos)
	if cos < 0.9999 {
		t.Errorf("cosine %.6f", cos)
	}
}

// TestChangesOfFusedMatrices: an adapter of a fused tensor changes each of its
// matrices.
func TestChangesOfFusedMatrices(t *testing.T) {
	cfg := small("phi3")
	weights, tokens := weightsOf(cfg, 1), draw(20, cfg.Vocab)
	for _, dora := range []bool{false, true} {
		a := adapter.Adapter{}
		for _, part := range []string{"attn_qkv", "ffn_up"} {
			name := "blk.1." + part + ".weight"
			w := weights[name]
			c := adapter.Change{Rank: 3, In: w.Dims[0], Out: w.Dims[1], Scale: 16.0 / 3, A: make([]float32, 3*w.Dims[0]), B: make([]float32, 3*w.Dims[1])}
			for i := range c.A {
				c.A[i] = float32(i%7-3) * 0.05
			}
			for i := range c.B {
				c.B[i] = float32(i%11-5) * 0.03
			}
			if dora {
				for i := range w.Dims[1] {
					c.Magnitude = append(c.Magnitude, 1+0.01*float32(i%13))
				}
			}
			a[name] = c
		}
		changed := maps.Clone(weights)
		for name, c := range a {
			w := slices.Clone(weights[name].Data)
			byFormula(w, c)
			changed[name] = Array{weights[name].Dims, w}
		}
		want, plain := formulas(cfg, changed).logits(tokens), formulas(cfg, weights).logits(tokens)
		if math.Abs(want[0]-plain[0]) < 0.01 {
			t.Fatal("the adapter has no effect")
		}
		path := writeAdapter(t, cfg.Arch, a)
		for _, merge := range []bool{false, true} {
			m, err := New(cfg, weights, Options{Threads: 2, Adapters: []AdapterOptions{{Path: path}}, MergeAdapters: merge})
			if err != nil {
				t.Fatal(err)
			}
			s, err := m.NewSession(SessionOptions{KV: "f32"})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Feed(t.Context(), tokens); err != nil {
				t.Fatal(err)
			}
			for i, v := range s.Logits() {
				if !(math.Abs(float64(v)-want[i]) < 1e-3) {
					t.Errorf("magnitudes %v, merged %v: logit %d is %v, by the formulas %v", dora, merge, i, v, want[i])
					break
				}
			}
			m.Close()
		}
	}
}
