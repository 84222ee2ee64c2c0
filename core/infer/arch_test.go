package infer

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf/arch"
)

// small returns a small shape of an architecture, with every optional part.
func small(name string) Config {
	c := Config{
		Arch: name, Context: 1024, Layers: 4, Width: 32, Heads: 4, KVHeads: 2, HeadDim: 16, Hidden: 64, Vocab: 40, Epsilon: 1e-5,
		Rope: Rope{Dims: 16, Base: 10000, Halves: (Config{Arch: name}).Style().Halves, OriginalContext: 1024, ExtFactor: -1},
	}
	switch name {
	case "llama": // as in Mistral
		c.Window, c.Windowed = 270, []bool{true, true, true, true}
	case "qwen3moe", "qwen3vlmoe":
		c.Experts, c.ExpertsUsed, c.ExpertHidden = 6, 2, 32
	case "gemma2":
		c.Window, c.Windowed = 7, []bool{true, false, true, false}
		c.AttentionCap, c.LogitCap, c.AttentionScale = 5, 3, 0.3
	case "gemma3":
		local := c.Rope
		local.Base = 100
		c.Window, c.Windowed, c.Local, c.Rope.Base = 260, []bool{true, true, false, true}, &local, 1e6
	case "gemma3n":
		local := c.Rope
		local.Base = 100
		c.Layers, c.Window, c.Windowed, c.Local, c.Rope.Base, c.LogitCap = 6, 260, []bool{true, false, true, true, false, true}, &local, 1e6, 30
		c.Altup = &arch.Altup{Streams: 4, Rank: 16, PerLayer: 12, Shared: 3, Cutoffs: []float32{1.6448533, arch.Dense, 0.3, arch.Dense, -0.5, 1}}
	case "gemma4":
		local := c.Rope
		local.Base, local.Dims = 100, 8
		c.Layers, c.Window, c.Windowed, c.Local, c.Rope.Base, c.LogitCap = 6, 260, []bool{true, false, true, true, true, false}, &local, 1e6, 30
		c.LocalHeadDim, c.LocalKVHeads, c.WideShared = 8, 4, true
		c.Altup = &arch.Altup{Streams: 1, PerLayer: 12, Shared: 3}
		c.Experts, c.ExpertsUsed, c.ExpertHidden = 6, 2, 32
	case "phi3":
		c.Rope.Scaling, c.Rope.OriginalContext, c.Rope.AttentionFactor = arch.LongRope, 64, 1.2
	case "smollm3":
		c.Unrotated = []bool{false, true, false, true}
	case "granite":
		c.EmbeddingScale, c.ResidualScale, c.AttentionScale, c.LogitDivisor = 3, 0.4, 0.2, 2
	case "gpt2":
		c.Rope, c.KVHeads = Rope{}, 4
	case "qwen2moe":
		c.Experts, c.ExpertsUsed, c.ExpertHidden, c.SharedHidden, c.ExpertSum = 6, 2, 32, 48, true
	case "olmoe", "flexolmo":
		c.Experts, c.ExpertsUsed, c.ExpertHidden, c.ExpertSum = 6, 2, 32, true
	case "granitemoe":
		c.Experts, c.ExpertsUsed, c.ExpertHidden, c.LogitDivisor = 6, 2, 32, 2
	case "gpt-oss":
		c.Experts, c.ExpertsUsed, c.ExpertHidden = 6, 2, 32
		c.Window, c.Windowed, c.Rope.Smooth = 7, []bool{true, false, true, false}, true
	case "deepseek":
		c.Experts, c.ExpertsUsed, c.ExpertHidden, c.SharedHidden, c.ExpertSum, c.DenseLead = 6, 2, 32, 64, true, 1
	case "deepseek2":
		c.Latent = &arch.Latent{QueryRank: 24, Rank: 32, Key: 16, Value: 24}
		c.KVHeads, c.Rope.Dims, c.HeadDim = 1, 8, 40
		c.Experts, c.ExpertsUsed, c.ExpertHidden, c.SharedHidden, c.DenseLead = 8, 3, 32, 64, 1
		c.ExpertSigmoid, c.ExpertGroups, c.GroupsUsed, c.ExpertScale = true, 4, 2, 2.5
	case "lfm2":
		c.Mixer, c.Recurrent = &arch.Mixer{Kernel: 3}, []bool{true, false, true, true}
	case "granitehybrid":
		c.Mixer, c.Recurrent = &arch.Mixer{Kernel: 4, Inner: 64, State: 16, Heads: 4, Groups: 2}, []bool{true, true, false, true}
		c.Experts, c.ExpertsUsed, c.ExpertHidden, c.SharedHidden, c.LogitDivisor = 6, 2, 64, 48, 2
		c.Unrotated = []bool{true, true, true, true}
	case "lfm2moe":
		c.Mixer, c.Recurrent = &arch.Mixer{Kernel: 3}, []bool{true, false, true, true}
		c.Experts, c.ExpertsUsed, c.ExpertHidden, c.DenseLead, c.ExpertSigmoid = 6, 2, 32, 1, true
	case "nemotron_h", "nemotron_h_moe":
		c.Rope, c.Mixer = Rope{}, &arch.Mixer{Kernel: 4, Inner: 64, State: 16, Heads: 4, Groups: 2}
		c.Layers, c.Recurrent, c.Feeding = 5, []bool{true, false, false, true, false}, []bool{false, true, false, false, true}
		if name == "nemotron_h_moe" {
			c.Hidden = 48
			c.Experts, c.ExpertsUsed, c.ExpertHidden, c.SharedHidden, c.ExpertSigmoid, c.ExpertScale = 6, 2, 48, 80, true, 2.5
		}
	case "mamba2":
		c.Rope, c.Heads, c.KVHeads, c.HeadDim, c.Hidden = Rope{}, 0, 0, 0, 0
		c.Mixer, c.Recurrent = &arch.Mixer{Kernel: 4, Inner: 64, State: 16, Heads: 4, Groups: 2}, []bool{true, true, true, true}
	case "qwen3next":
		c.Mixer, c.Recurrent = &arch.Mixer{Kernel: 4, Inner: 64, State: 16, Heads: 4, Groups: 2, Delta: true}, []bool{true, true, false, true}
		c.Experts, c.ExpertsUsed, c.ExpertHidden, c.SharedHidden, c.Rope.Dims = 6, 2, 32, 48, 8
	case "qwen35", "qwen35moe":
		c.Mixer, c.Recurrent = &arch.Mixer{Kernel: 4, Inner: 96, State: 16, Heads: 6, Groups: 2, Delta: true, Tiled: true}, []bool{true, true, false, true}
		c.Rope.Dims, c.Rope.Sections, c.Rope.Interleaved = 12, [3]int{2, 2, 2}, true
		if name == "qwen35moe" {
			c.Experts, c.ExpertsUsed, c.ExpertHidden, c.SharedHidden = 6, 2, 32, 48
		}
	case "glm4moe", "dots1":
		c.Experts, c.ExpertsUsed, c.ExpertHidden, c.SharedHidden, c.ExpertSum, c.DenseLead = 8, 3, 32, 64, true, 1
		c.ExpertSigmoid, c.ExpertScale = true, 2.5
	case "ernie4_5-moe":
		c.Experts, c.ExpertsUsed, c.ExpertHidden, c.SharedHidden, c.DenseLead = 6, 2, 32, 48, 1
	case "hunyuan-moe":
		c.Experts, c.ExpertsUsed, c.ExpertHidden, c.SharedHidden = 6, 2, 64, 48
	case "minimax-m2":
		c.Experts, c.ExpertsUsed, c.ExpertHidden, c.ExpertSigmoid = 6, 2, 64, true
	case "olmo2":
		c.Local, c.Window, c.Windowed = &arch.Rope{Dims: 16, Base: c.Rope.Base, Halves: true, OriginalContext: c.Context, ExtFactor: -1}, 7, []bool{true, true, true, false}
	case "starcoder":
		c.Rope, c.KVHeads = Rope{}, 1
	case "apertus":
		same := func(v float32) []float32 { return slices.Repeat([]float32{v}, c.Layers) }
		c.Curves = &arch.Curves{Above: same(0.3), Below: same(-0.4), Slope: same(0.6), Least: same(-1e-6)}
	case "nemotron":
		c.Rope.Dims = 8
	case "mistral3":
		c.Cooling, c.Rope.OriginalContext = 0.5, 100
	case "phi2", "falcon":
		c.Parallel, c.Rope.Dims = true, 8
	case "command-r":
		c.Parallel, c.LogitDivisor = true, 4
	case "cohere2":
		c.Parallel, c.LogitDivisor = true, 4
		c.Window, c.Windowed, c.Unrotated = 7, []bool{true, true, true, false}, []bool{false, false, false, true}
	case "exaone4":
		c.Window, c.Windowed, c.Unrotated = 7, []bool{true, true, true, false}, []bool{false, false, false, true}
	case "opt", "bloom", "mpt":
		c.Rope, c.KVHeads, c.Heads, c.HeadDim = Rope{}, 6, 6, 12
	case "gptneo":
		c.Rope, c.KVHeads, c.Window, c.Windowed = Rope{}, 4, 7, []bool{false, true, false, true}
	case "gptj":
		c.Parallel, c.Rope.Dims, c.KVHeads = true, 8, 4
	case "gptneox", "stablelm":
		c.Parallel, c.Rope.Dims, c.KVHeads = true, 8, 4
	}
	return c
}

// weightsOf returns random weights for any shape, including optional ones.
func weightsOf(c Config, seed uint64) Memory {
	r := rand.New(rand.NewPCG(seed, 7))
	m := Memory{}
	all := c.Globals()
	for i := range c.Layers {
		all = append(all, c.Layer(i, nil)...)
	}
	for _, t := range all {
		if t.Name == arch.Output && seed%2 == 0 || t.Name == arch.RopeFreqs {
			continue
		}
		n := 1
		for _, d := range t.Dims {
			n *= d
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
			switch {
			case t.Name == arch.RopeShort, t.Name == arch.RopeLong:
				x[i] = 1 + x[i]*x[i]
			case strings.Contains(t.Name, "norm") && strings.HasSuffix(t.Name, ".weight"):
				x[i] = 1 + 0.2*x[i]
			case strings.HasSuffix(t.Name, arch.ExpertScales):
				x[i] = 1 + 0.2*x[i]
			case strings.HasSuffix(t.Name, arch.RouterScale): // which is divided by √C
				x[i] = (1 + 0.2*x[i]) * float32(math.Sqrt(float64(c.Width)))
			case strings.HasSuffix(t.Name, ".ssm_a"): // decays
				x[i] = -0.1 - x[i]*x[i]
			case strings.HasSuffix(t.Name, ".bias"):
				x[i] *= 0.2
			case t.Name != arch.TokenEmbedding:
				x[i] /= float32(math.Sqrt(float64(t.Dims[0])))
			}
		}
		m[t.Name] = Array{t.Dims, x}
	}
	return m
}

// draw returns n tokens of a vocabulary.
func draw(n, vocab int) []int32 {
	r := rand.New(rand.NewPCG(5, uint64(n)))
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(r.IntN(vocab))
	}
	return out
}

// TestEveryArchitecture: with each architecture, batched and single tokens give
// the same bits on any number of threads, a saved session resumes, a prefix is
// reused exactly, a draft does not change the text, and every type of keys and
// values comes close to float32.
func TestEveryArchitecture(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	for _, name := range arch.Known() {
		t.Run(name, func(t *testing.T) {
			cfg := small(name)
			weights := weightsOf(cfg, 1)
			s := open(t, cfg, weights, SessionOptions{KV: "f32"})
			tokens := draw(600, cfg.Vocab)
			var alone [][]float32
			for _, k := range tokens {
				if err := s.Feed(t.Context(), []int32{k}); err != nil {
					t.Fatal(err)
				}
				alone = append(alone, slices.Clone(s.Logits()))
			}
			last := alone[len(alone)-1]
			for _, v := range last {
				if math.IsNaN(float64(v)) {
					t.Fatal("logits are NaN")
				}
			}

			two, err := New(cfg, weights, Options{Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer two.Close()
			together, err := two.NewSession(SessionOptions{KV: "f32"})
			if err != nil {
				t.Fatal(err)
			}
			row := 0
			if err := together.feed(t.Context(), []Input{{Tokens: tokens}}, len(tokens), func(i int, logits []float32) {
				if !slices.Equal(logits, alone[i]) {
					t.Fatalf("position %d: logits differ when fed together", i)
				}
				row++
			}); err != nil || row != len(tokens) {
				t.Fatal(row, err)
			}

			var saved bytes.Buffer
			together.Truncate(500)
			if err := together.WriteSnapshot(&saved); err != nil {
				t.Fatal(err)
			}
			again, err := two.NewSession(SessionOptions{KV: "f32"})
			if err != nil {
				t.Fatal(err)
			}
			if err := again.ReadSnapshot(&saved); err != nil {
				t.Fatal(err)
			}
			if reused, err := again.Prompt(t.Context(), tokens); err != nil || reused != 500 || !slices.Equal(again.Logits(), last) {
				t.Errorf("reused %d, %v, same logits: %v", reused, err, slices.Equal(again.Logits(), last))
			}

			draft := open(t, cfg, weightsOf(cfg, 3), SessionOptions{})
			texts := make([][]int32, 2)
			for i := range texts {
				again.Truncate(599)
				if _, err := again.Prompt(t.Context(), tokens); err != nil {
					t.Fatal(err)
				}
				opt := GenerateOptions{MaxTokens: 12}
				if i == 1 {
					opt.Draft = draft
				}
				if _, err := again.Generate(t.Context(), opt, func(k Token) error { texts[i] = append(texts[i], k.ID); return nil }); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(texts[0], texts[1]) {
				t.Errorf("with a draft %v, without %v", texts[1], texts[0])
			}

			for kind, least := range map[string]float64{"f16": 0.9999, "q8_0": 0.97} {
				other, err := two.NewSession(SessionOptions{KV: kind})
				if err != nil {
					t.Fatal(err)
				}
				if err := other.Feed(t.Context(), tokens); err != nil {
					t.Fatal(err)
				}
				if cos := similar(other.Logits(), last); !(cos >= least) {
					t.Errorf("keys and values of %s: cosine %v", kind, cos)
				}
			}
		})
	}
}

func similar(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / math.Sqrt(aa*bb)
}

// TestPositionsEnd: a model with learned positions has no positions beyond
// them.
func TestPositionsEnd(t *testing.T) {
	cfg := small("gpt2")
	cfg.Context = 16
	m, err := New(cfg, weightsOf(cfg, 1), Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.NewSession(SessionOptions{Context: 17}); err == nil {
		t.Error("a session longer than the positions there are")
	}
	s, err := m.NewSession(SessionOptions{Context: 16})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Feed(t.Context(), draw(16, cfg.Vocab)); err != nil {
		t.Error(err)
	}
}

// TestUnknownTensor: an unused tensor is refused by name.
func TestUnknownTensor(t *testing.T) {
	cfg := small("qwen2")
	w := weightsOf(cfg, 1)
	w["blk.2.attn_sinks.weight"] = Array{[]int{4}, make([]float32, 4)}
	if _, err := New(cfg, w, Options{Threads: 1}); err == nil || !strings.Contains(err.Error(), "blk.2.attn_sinks.weight") {
		t.Error(err)
	}
}

// TestGatesWithProducts: logits of experts with gates and products in one tensor are those of two tensors.
func TestGatesWithProducts(t *testing.T) {
	cfg := small("qwen3moe")
	weights := weightsOf(cfg, 1)
	read := func(w Memory) []float32 {
		t.Helper()
		s := open(t, cfg, w, SessionOptions{KV: "f32"})
		if err := s.Feed(t.Context(), draw(20, cfg.Vocab)); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(s.Logits())
	}
	want := read(weights)
	for i := range cfg.Layers {
		name := func(part string) string { return arch.Block(i) + part }
		gates, ups, n := weights[name("ffn_gate_exps.weight")].Data, weights[name("ffn_up_exps.weight")].Data, cfg.Width*cfg.ExpertHidden
		var both []float32
		for e := range cfg.Experts {
			both = append(append(both, gates[e*n:][:n]...), ups[e*n:][:n]...)
		}
		weights[name(arch.GateUpExperts)] = Array{[]int{cfg.Width, 2 * cfg.ExpertHidden, cfg.Experts}, both}
		delete(weights, name("ffn_gate_exps.weight"))
		delete(weights, name("ffn_up_exps.weight"))
	}
	if got := read(weights); !slices.Equal(got, want) {
		t.Error("the logits differ")
	}
}
