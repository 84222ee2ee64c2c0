package infer

import (
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/tools/libllama"
)

// native starts llama.cpp, or skips the test if it is not available.
func native(t *testing.T) *libllama.Client {
	t.Helper()
	dir := testfiles.Native(t, "lib", "bins", "linux-x64")
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("skipped: llama.cpp's library is for linux/amd64")
	}
	c, err := libllama.Start(testfiles.Root(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// write stores a model in a GGUF file without a tokenizer, matrices in the
// types that choose returns.
func write(t testing.TB, c Config, weights Memory, choose func(name string, dims []int) tensor.Type) string {
	t.Helper()
	kvs := append(c.Metadata(), gguf.KV{Key: gguf.KeyTokenizerModel, Value: "none"}, gguf.KV{Key: gguf.KeyQuantizationVersion, Value: uint32(2)})
	var sources []gguf.Source
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		a := weights[name]
		typ := choose(name, a.Dims)
		data := make([]byte, typ.RowBytes(len(a.Data)))
		quant.Quantize(data, a.Data, typ)
		sources = append(sources, gguf.Source{Name: name, Type: typ, Dims: a.Dims, Data: gguf.Bytes(data)})
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
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

// matrices stores matrices as typ, and vectors unchanged.
func matrices(typ tensor.Type) func(string, []int) tensor.Type {
	return func(_ string, dims []int) tensor.Type {
		if len(dims) < 2 {
			return tensor.F32
		}
		return typ
	}
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

// compare feeds tokens to both engines and returns the smallest cosine between
// their logits, and how often the most likely token is the same.
func compare(t *testing.T, c *libllama.Client, path string, tokens []int32, store string, kv tensor.Type) (least, same float64) {
	t.Helper()
	if _, err := c.Do(libllama.Request{Op: "load", Path: path, Threads: 1, Context: 512, KV: uint32(kv)}); err != nil {
		t.Fatal(err)
	}
	theirs, err := c.Do(libllama.Request{Op: "feed", Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	m, err := Load(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession(SessionOptions{Context: 512, KV: store})
	if err != nil {
		t.Fatal(err)
	}
	least = 1
	for i, token := range tokens {
		if err := s.Feed(t.Context(), []int32{token}); err != nil {
			t.Fatal(err)
		}
		least = min(least, cosine(s.Logits(), theirs.Logits[i]))
		if argmax(s.Logits()) == argmax(theirs.Logits[i]) {
			same += 1 / float64(len(tokens))
		}
	}
	return least, same
}

// TestParityTypes compares logits with llama.cpp's for every weight type, on a
// random model whose row lengths are multiples of a K-block.
func TestParityTypes(t *testing.T) {
	c := native(t)
	r := rand.New(rand.NewPCG(11, 11))
	cfg := Config{
		Arch: "llama", Context: 512, Layers: 3, Width: 256, Heads: 8, KVHeads: 2, HeadDim: 32, Hidden: 768, Vocab: 1000, Epsilon: 1e-5,
		Rope: Rope{Dims: 32, Base: 10000, OriginalContext: 512},
	}
	weights := random(cfg, 12)
	tokens := make([]int32, 96)
	for i := range tokens {
		tokens[i] = r.Int32N(int32(cfg.Vocab))
	}
	for _, typ := range []tensor.Type{tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_0, tensor.Q4_K, tensor.Q6_K} {
		path := write(t, cfg, weights, matrices(typ))
		least, same := compare(t, c, path, tokens, "f32", tensor.F32)
		t.Logf("%v: cosine ≥ %.6f, likeliest token the same in %.1f %%", typ, least, 100*same)
		want := 0.9990
		if typ == tensor.F32 || typ == tensor.F16 {
			want = 0.9999
		}
		if least < want {
			t.Errorf("%v: cosine %.6f is below %v", typ, least, want)
		}
	}
	path := write(t, cfg, weights, matrices(tensor.F32))
	for store, kv := range map[string]tensor.Type{"f16": tensor.F16, "q8_0": tensor.Q8_0} {
		least, _ := compare(t, c, path, tokens, store, kv)
		t.Logf("keys and values as %s: cosine ≥ %.6f", store, least)
		if least < 0.999 {
			t.Errorf("keys and values as %s: cosine %.6f", store, least)
		}
	}
}

// TestParityArchitectures compares qwen2, and every kind of context extension.
func TestParityArchitectures(t *testing.T) {
	c := native(t)
	tokens := make([]int32, 300)
	for i := range tokens {
		tokens[i] = int32(i * i % 100)
	}
	factors := func(n int) Array {
		a := Array{[]int{n}, make([]float32, n)}
		for i := range a.Data {
			a.Data[i] = 1 + float32(i)/3
		}
		return a
	}
	for name, change := range map[string]func(*Config, Memory){
		"plain":  func(*Config, Memory) {},
		"linear": func(c *Config, _ Memory) { c.Rope.Scaling, c.Rope.Factor = "linear", 4 },
		"yarn": func(c *Config, _ Memory) {
			c.Rope.Scaling, c.Rope.Factor, c.Rope.OriginalContext, c.Rope.ExtFactor = "yarn", 4, 64, -1
		},
		"yarn attention": func(c *Config, _ Memory) {
			c.Rope.Scaling, c.Rope.Factor, c.Rope.OriginalContext, c.Rope.ExtFactor = "yarn", 8, 32, -1
			c.Rope.AttentionFactor = 0.9
		},
		"llama3": func(_ *Config, w Memory) { w["rope_freqs.weight"] = factors(8) },
		"longrope short": func(c *Config, w Memory) {
			c.Rope.Scaling, c.Rope.OriginalContext, c.Rope.AttentionFactor, c.Rope.ExtFactor = "longrope", 1024, 1.1, -1
			w["rope_factors_short.weight"], w["rope_factors_long.weight"] = factors(8), w["output_norm.weight"].first(8)
		},
		"longrope long": func(c *Config, w Memory) {
			c.Rope.Scaling, c.Rope.OriginalContext, c.Rope.AttentionFactor, c.Rope.ExtFactor = "longrope", 64, 1.1, -1
			w["rope_factors_short.weight"], w["rope_factors_long.weight"] = w["output_norm.weight"].first(8), factors(8)
		},
		"untied": func(c *Config, w Memory) { w["output.weight"] = random(*c, 77)["token_embd.weight"] },
	} {
		for _, arch := range []string{"llama", "qwen2"} {
			if arch == "qwen2" && (name == "llama3" || name == "longrope short" || name == "longrope long") {
				continue // llama.cpp's qwen2 lacks these tensors
			}
			cfg := tiny(arch, 100)
			cfg.Context = 512
			cfg.Rope.OriginalContext = 512
			weights := random(cfg, 21)
			change(&cfg, weights)
			path := write(t, cfg, weights, matrices(tensor.F32))
			least, same := compare(t, c, path, tokens, "f32", tensor.F32)
			t.Logf("%s %s: cosine ≥ %.7f, likeliest token the same in %.1f %%", arch, name, least, 100*same)
			if least < 0.9999 {
				t.Errorf("%s %s: cosine %.6f", arch, name, least)
			}
		}
	}
}

func (a Array) first(n int) Array { return Array{[]int{n}, a.Data[:n]} }

// TestParityStories: the same 128 greedy tokens, and vectors read like tokens.
func TestParityStories(t *testing.T) {
	c := native(t)
	cfg, weights := stories(t)
	path := write(t, cfg, weights, matrices(tensor.F32))
	if _, err := c.Do(libllama.Request{Op: "load", Path: path, Threads: 1, Context: 512}); err != nil {
		t.Fatal(err)
	}
	m, err := Load(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession(SessionOptions{KV: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	least := 1.0
	for token, i := int32(1), 0; i < 128; i++ {
		if err := s.Feed(t.Context(), []int32{token}); err != nil {
			t.Fatal(err)
		}
		theirs, err := c.Do(libllama.Request{Op: "feed", Tokens: []int32{token}})
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, cosine(s.Logits(), theirs.Logits[0]))
		token = argmax(s.Logits())
		if want := argmax(theirs.Logits[0]); token != want {
			t.Fatalf("step %d: token %d, llama.cpp has %d", i, token, want)
		}
	}
	t.Logf("128 greedy tokens are the same, cosine ≥ %.7f", least)
	if least < 0.9999 {
		t.Errorf("cosine %.6f", least)
	}

	s.Truncate(0)
	vectors := make([]float32, 20*cfg.Width)
	r := rand.New(rand.NewPCG(31, 31))
	for i := range vectors {
		vectors[i] = float32(r.NormFloat64())
	}
	if err := s.FeedVectors(t.Context(), vectors); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(libllama.Request{Op: "clear"}); err != nil {
		t.Fatal(err)
	}
	theirs, err := c.Do(libllama.Request{Op: "vectors", Vectors: vectors})
	if err != nil {
		t.Fatal(err)
	}
	if cos := cosine(s.Logits(), theirs.Logits[0]); cos < 0.9999 {
		t.Errorf("vectors: cosine %.6f", cos)
	}
}

// TestParityRows: rows are quantized to ggml's bits where its format is exact,
// and at least as closely elsewhere; dequantization is the same.
func TestParityRows(t *testing.T) {
	c := native(t)
	r := rand.New(rand.NewPCG(41, 41))
	const n = 256 * 40
	kinds := map[string]func() float32{
		"normal": func() float32 { return float32(r.NormFloat64() * 0.02) },
		"heavy":  func() float32 { return float32(r.NormFloat64() * math.Exp(r.NormFloat64())) },
		"even":   func() float32 { return float32(r.IntN(33)-16) / 8 },
	}
	for kind, draw := range kinds {
		x := make([]float32, n)
		for i := range x {
			x[i] = draw()
		}
		for _, typ := range []tensor.Type{
			tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.MXFP4,
			tensor.IQ4_NL, tensor.IQ4_XS, tensor.Q2_K, tensor.Q3_K, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K,
		} {
			ours := make([]byte, typ.RowBytes(n))
			quant.Quantize(ours, x, typ)
			theirs, err := c.Do(libllama.Request{Op: "quantize", Type: uint32(typ), Rows: x})
			if err != nil {
				t.Fatal(err)
			}
			if typ.BlockSize() == 32 && typ != tensor.IQ4_NL {
				if !slices.Equal(ours, theirs.Blocks) {
					t.Errorf("%v %s: the bytes differ", typ, kind)
				}
				continue
			}
			a, b := make([]float32, n), make([]float32, n)
			quant.Dequantize(a, ours, typ)
			quant.Dequantize(b, theirs.Blocks, typ)
			ea, eb := rms(a, x), rms(b, x)
			t.Logf("%v %s: error %.6f, ggml's %.6f", typ, kind, ea, eb)
			if ea > eb {
				t.Errorf("%v %s: error %v, ggml's is %v", typ, kind, ea, eb)
			}
		}
	}
	for _, typ := range []tensor.Type{
		tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.IQ4_NL, tensor.IQ4_XS, tensor.MXFP4,
		tensor.Q2_K, tensor.Q3_K, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K,
	} {
		b := make([]byte, typ.RowBytes(n))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		theirs, err := c.Do(libllama.Request{Op: "dequantize", Type: uint32(typ), Blocks: b, Elems: n})
		if err != nil {
			t.Fatal(err)
		}
		ours := make([]float32, n)
		quant.Dequantize(ours, b, typ)
		for i, v := range ours {
			w := theirs.Rows[i]
			if v != w && !(v != v && w != w) {
				t.Errorf("%v: element %d is %v, ggml's %v", typ, i, v, w)
				break
			}
		}
	}
}

func rms(a, b []float32) float64 {
	var sum float64
	for i := range a {
		d := float64(a[i] - b[i])
		sum += d * d
	}
	return math.Sqrt(sum / float64(len(a)))
}

// rivals returns the architectures that llama.cpp computes too.
func rivals() []string {
	return slices.DeleteFunc(arch.Known(), func(name string) bool {
		return name == "flexolmo" || name == "gptj" || name == "gptneo" || name == "opt"
	})
}

// rival returns the small shape of an architecture, with random weights, that
// llama.cpp supports as well: it ignores the window in llama and phi3 and the
// attention scale in gemma2, and has only GELU's tanh form.
func rival(name string, widen func(*Config)) (Config, Memory) {
	cfg := small(name)
	switch name {
	case "llama":
		cfg.Window, cfg.Windowed = 0, nil
	case "gemma2":
		cfg.AttentionScale = 0
	case "smollm3":
		cfg.Unrotated = []bool{false, false, false, true}
	case "gptneox":
		cfg.Activation = arch.GELUTanh
	case "mistral3":
		cfg.Cooling = 0
	case "granitehybrid": // llama.cpp requires twice the width
		cfg.Mixer.Inner = 128
	case "exaone4":
		cfg.Window, cfg.Windowed, cfg.Unrotated = 0, nil, nil
	case "gemma4": // llama.cpp takes the keys of the two layers before those that share them
		cfg.Windowed = []bool{true, true, false, true, true, false}
	case "gemma3n": // llama.cpp has two sizes, and cuts gates by the deviation of one number fewer
		cfg.Hidden = 512
		cfg.Layers, cfg.Windowed, cfg.Altup = 23, make([]bool, 23), &arch.Altup{Streams: 4, Rank: 64, PerLayer: 256, Shared: 3, Cutoffs: make([]float32, 23)}
		for i := range cfg.Windowed {
			cfg.Windowed[i], cfg.Altup.Cutoffs[i] = (i+1)%5 != 0, arch.Dense
			if i < 10 {
				cfg.Altup.Cutoffs[i] = 1.6448533535003662
			}
		}
	}
	widen(&cfg)
	switch name {
	case "qwen2vl", "qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe": // llama.cpp requires the key
		n := cfg.Rope.Dims / 6
		cfg.Rope.Sections = [3]int{cfg.Rope.Dims/2 - 2*n, n, n}
		cfg.Rope.Interleaved = name != "qwen2vl"
	case "phi2", "falcon", "command-r", "cohere2", "olmoe": // llama.cpp does not read the rotated dimensions
		cfg.Rope.Dims, cfg.ExpertHidden = cfg.HeadDim, cfg.Hidden*min(cfg.Experts, 1)
		if name == "olmoe" {
			cfg.KVHeads = cfg.Heads
		}
	case "dots1": // llama.cpp requires a key head for each query head
		cfg.KVHeads = cfg.Heads
	case "granitemoe": // nor the width of experts
		cfg.ExpertHidden = cfg.Hidden
	}
	if name != "mamba2" {
		cfg.Width = cfg.Heads * cfg.HeadDim // as some of them need it
	}
	weights := weightsOf(cfg, 1)
	for tensor := range weights {
		bias := strings.HasSuffix(tensor, ".bias")
		bare := name == "stablelm" || name == "falcon" || name == "command-r" || name == "cohere2" // only norms have biases
		if y := cfg.Style(); bias && !y.LayerNorm && !y.ExpertBias && !strings.Contains(tensor, ".ssm_") && !strings.Contains(tensor, "exp_probs") || bias && bare && !strings.Contains(tensor, "_norm") ||
			name == "command-r" && strings.Contains(tensor, "_norm.") && strings.Contains(tensor, "attn_") && !strings.Contains(tensor, "attn_norm") {
			delete(weights, tensor)
		}
	}
	if name == "gemma4" { // llama.cpp requires divisors
		a := Array{[]int{cfg.Rope.Dims / 2}, slices.Repeat([]float32{1, 1e30}, cfg.Rope.Dims/4)}
		weights[arch.RopeFreqs] = a
	}
	if name == "gemma3n" { // rounding grows with larger gains
		for i := range cfg.Layers {
			tensor.Scale(weights[arch.Block(i)+"attn_q_norm.weight"].Data, 0.25)
			tensor.Scale(weights[arch.Block(i)+"post_ffw_norm.weight"].Data, 0.3)
		}
	}
	switch name { // tied output
	case "gemma", "gemma2", "gemma3n", "command-r", "cohere2":
		delete(weights, arch.Output)
	}
	return cfg, weights
}

// TestArchitecturesAgainstLibllama: every architecture agrees with llama.cpp
// where it supports the file; if it has experts, with all of them in use.
func TestArchitecturesAgainstLibllama(t *testing.T) {
	c := native(t)
	for _, name := range rivals() {
		cfg, weights := rival(name, func(c *Config) { c.ExpertsUsed, c.ExpertGroups, c.GroupsUsed = c.Experts, 0, 0 })
		path := write(t, cfg, weights, matrices(tensor.F32))
		least, same := compare(t, c, path, draw(300, cfg.Vocab), "f32", tensor.F32)
		t.Logf("%-13s least cosine %.7f, likeliest token equal %.3f", name, least, same)
		if !(least > 0.9999) {
			t.Errorf("%s: least cosine %.7f, likeliest token equal %.3f", name, least, same)
		}
	}
}

// TestExpertsAgainstLibllama: both engines choose the same experts in short
// texts, except where the scores of a chosen expert and of another are almost
// equal: rounding decides there, and the logits are not compared.
func TestExpertsAgainstLibllama(t *testing.T) {
	c := native(t)
	for _, name := range rivals() {
		cfg, weights := rival(name, func(*Config) {})
		if cfg.Experts == 0 {
			continue
		}
		path := write(t, cfg, weights, matrices(tensor.F32))
		if _, err := c.Do(libllama.Request{Op: "load", Path: path, Threads: 1, Context: 512, KV: uint32(tensor.F32)}); err != nil {
			t.Fatal(err)
		}
		m, err := Load(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		const texts, tie = 40, 1e-3
		least, ties, tied := 1.0, 0, 1.0
		for text := range slices.Chunk(draw(8*texts, cfg.Vocab), 8) {
			gap, worst := compareShort(t, c, m, weights, text)
			if gap < tie {
				ties++
				tied = min(tied, worst)
			} else {
				least = min(least, worst)
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%-13s least cosine %.7f; %d of %d texts with a tie of experts: %.7f", name, least, ties, texts, tied)
		if !(least > 0.9999) || ties > texts/2 {
			t.Errorf("%s: least cosine %.7f, %d of %d texts with a tie", name, least, ties, texts)
		}
	}
}

// compareShort feeds a text to new sessions of both engines, and returns the
// least difference that decided for an expert, and the smallest cosine.
func compareShort(t *testing.T, c *libllama.Client, m *Model, weights Memory, text []int32) (gap, worst float64) {
	t.Helper()
	if _, err := c.Do(libllama.Request{Op: "clear"}); err != nil {
		t.Fatal(err)
	}
	theirs, err := c.Do(libllama.Request{Op: "feed", Tokens: text})
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.NewSession(SessionOptions{Context: len(text), KV: "f32"})
	if err != nil {
		t.Fatal(err)
	}
	o := &margins{cfg: m.cfg, weights: weights, least: math.Inf(1)}
	s.Observe(o)
	worst = 1
	for i, token := range text {
		if err := s.Feed(t.Context(), []int32{token}); err != nil {
			t.Fatal(err)
		}
		worst = min(worst, cosine(s.Logits(), theirs.Logits[i]))
	}
	return o.least, worst
}

// margins is an Observer that finds the least difference by which an expert, or
// a group of experts, was chosen before another.
type margins struct {
	cfg     Config
	weights Memory
	least   float64
}

func (m *margins) Observe(names []string, _ int, x []float32, cols int) {
	name := names[0]
	if !strings.HasSuffix(name, ".ffn_gate_inp.weight") {
		return
	}
	c := &m.cfg
	bias := m.weights[strings.Replace(name, ".weight", ".bias", 1)].Data
	extra := m.weights[strings.Replace(name, "ffn_gate_inp.weight", "exp_probs_b.bias", 1)].Data
	for row := range slices.Chunk(x, cols) {
		scores := make([]float64, c.Experts)
		for e := range scores {
			for i, v := range row {
				scores[e] += float64(v) * float64(m.weights[name].Data[e*cols+i])
			}
			if bias != nil {
				scores[e] += float64(bias[e])
			}
			if c.ExpertSigmoid {
				scores[e] = 1 / (1 + math.Exp(-scores[e]))
			}
			if extra != nil {
				scores[e] += float64(extra[e])
			}
		}
		if c.ExpertGroups > 1 {
			scores = m.groups(scores)
		}
		m.choose(scores, c.ExpertsUsed)
	}
}

// choose notes the difference between the last chosen score and the next.
func (m *margins) choose(scores []float64, n int) {
	sorted := slices.Sorted(slices.Values(scores))
	if k := len(sorted) - n; k > 0 {
		m.least = min(m.least, sorted[k]-sorted[k-1])
	}
}

// groups notes the difference between groups, and returns the scores in the
// best of them.
func (m *margins) groups(scores []float64) (kept []float64) {
	size := m.cfg.Experts / m.cfg.ExpertGroups
	var sums []float64
	for group := range slices.Chunk(scores, size) {
		best := slices.Sorted(slices.Values(group))
		sums = append(sums, best[size-1]+best[size-2])
	}
	m.choose(sums, m.cfg.GroupsUsed)
	least := slices.Sorted(slices.Values(sums))[len(sums)-m.cfg.GroupsUsed]
	for g, sum := range sums {
		if sum >= least {
			kept = append(kept, scores[g*size:(g+1)*size]...)
		}
	}
	return kept
}
