package infer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/quant/calibrated"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/tools/libllama"
)

// wide makes the rows of matrices multiples of a K-block.
func wide(c *Config) {
	c.Vocab = 300
	switch {
	case c.Latent != nil:
		c.Latent = &arch.Latent{QueryRank: 256, Rank: 256, Key: 64, Value: 64}
		c.Rope.Dims, c.HeadDim = 32, 288
	case c.Heads > 0:
		c.HeadDim *= 4
		c.Rope.Dims *= 4
	default:
		c.Width = 256
	}
	c.Hidden *= 4
	c.ExpertHidden, c.SharedHidden = min(c.ExpertHidden, 1)*256, min(c.SharedHidden, 1)*256
	if m := c.Mixer; m != nil && m.Delta {
		m.Inner, m.State = 64*m.Heads, 64
	} else if m != nil && m.Inner > 0 {
		m.Inner = 512
	}
	if c.Local != nil {
		c.Local.Dims *= 4
	}
}

// TestRecipesAgainstLibllama: llama.cpp's quantizer chooses the types of our
// recipes, for an architecture with each of their rules (MM_ALL: for all).
func TestRecipesAgainstLibllama(t *testing.T) {
	c := native(t)
	theirs := filepath.Join(t.TempDir(), "theirs.gguf")
	names := []string{"deepseek2", "falcon", "gpt2", "granitehybrid", "lfm2moe", "llama", "qwen2moe", "qwen35"}
	if os.Getenv("MM_ALL") != "" {
		names = rivals()
	}
	for _, name := range names {
		cfg, weights := rival(name, wide)
		full := write(t, cfg, weights, matrices(tensor.F32))
		model := recipeModel(cfg, weights)
		for _, recipe := range []string{"Q8_0", "Q5_K_M", "Q5_0", "Q4_K_M", "Q4_K_S", "IQ4_XS", "Q3_K_L", "Q3_K_M", "Q2_K"} {
			r, err := quant.ParseRecipe(recipe)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Do(libllama.Request{Op: "convert", Path: full, Out: theirs, Type: r.FileType, Threads: 1}); err != nil {
				t.Fatal(err)
			}
			f, err := gguf.Open(theirs)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range f.Tensors {
				if ours := r.Type(x.Name, x.Dims, model); ours != x.Type {
					t.Errorf("%s %s: %s %v is %v, llama.cpp has %v", name, recipe, x.Name, x.Dims, ours, x.Type)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// recipeModel returns what recipes depend on.
func recipeModel(c Config, weights Memory) quant.Model {
	_, untied := weights[arch.Output]
	m := quant.Model{Layers: c.Layers, Tied: !untied, Group: c.Heads / max(1, c.KVHeads), Experts: c.Experts, Falcon: c.Arch == "falcon"}
	if c.Recurrent != nil && !c.Mixer.Delta {
		for _, r := range c.Recurrent {
			m.Attends = append(m.Attends, !r)
		}
	}
	return m
}

// TestQuantizedAgainstLibllama: llama.cpp computes with the files of our
// recipes what we do, of rows that fit blocks and of others.
func TestQuantizedAgainstLibllama(t *testing.T) {
	c := native(t)
	for _, name := range rivals() {
		for size, widen := range map[string]func(*Config){"wide": wide, "small": func(*Config) {}} {
			if size == "wide" && !slices.Contains([]string{"deepseek2", "granitehybrid", "lfm2", "llama", "mamba2", "qwen35moe"}, name) && os.Getenv("MM_ALL") == "" {
				continue
			}
			cfg, weights := rival(name, func(c *Config) {
				widen(c)
				c.ExpertsUsed, c.ExpertGroups, c.GroupsUsed = c.Experts, 0, 0 // ties decide nothing
			})
			for _, recipe := range []string{"Q8_0", "Q4_K_M"} {
				r, err := quant.ParseRecipe(recipe)
				if err != nil {
					t.Fatal(err)
				}
				model := recipeModel(cfg, weights)
				path := write(t, cfg, weights, func(name string, dims []int) tensor.Type { return r.Type(name, dims, model) })
				least, same := compare(t, c, path, draw(32, cfg.Vocab), "f32", tensor.F32)
				t.Logf("%-13s %-5s %-6s least cosine %.5f, likeliest token equal %.3f", name, size, recipe, least, same)
				if !(least > 0.98) {
					t.Errorf("%s %s %s: least cosine %.5f", name, size, recipe, least)
				}
			}
		}
	}
}

// TestFactorsOfArchitectures: factors that make matrices easier to round change no
// result, because every matrix and vector around them gets its part.
func TestFactorsOfArchitectures(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	p := pool.New(1)
	defer p.Close()
	for _, name := range append(arch.Known(), "deepseek2 lite") {
		name, lite := strings.CutSuffix(name, " lite")
		cfg := small(name)
		if lite {
			cfg.Latent.QueryRank, cfg.DenseLead = 0, 2
		}
		weights := weightsOf(cfg, 1)
		f, err := gguf.Open(write(t, cfg, weights, matrices(tensor.F32)))
		if err != nil {
			t.Fatal(err)
		}
		m := &calibrated.Imatrix{Entries: map[string]calibrated.Entry{}}
		for _, x := range f.Tensors {
			sums := make([]float32, x.Dims[0])
			for i := range sums {
				sums[i] = float32(1 + i*i*i%97)
			}
			m.Entries[x.Name] = calibrated.Entry{Sums: sums, Counts: []float32{1}}
		}
		factors, err := calibrated.SearchFactors(t.Context(), f, func(x gguf.Tensor) tensor.Type {
			if len(x.Dims) == 2 && x.Dims[0]%32 == 0 {
				return tensor.Q4_0
			}
			return tensor.F32
		}, m, p)
		if err != nil {
			t.Fatal(err)
		}
		scaled := Memory{}
		for name, a := range weights {
			by, out := factors[name], slices.Clone(a.Data)
			for i := range out {
				if by.Columns != nil {
					out[i] *= by.Columns[i%a.Dims[0]]
				}
				if by.Rows != nil {
					out[i] *= by.Rows[i/a.Dims[0]]
				}
			}
			scaled[name] = Array{a.Dims, out}
		}
		tokens := draw(20, cfg.Vocab)
		a, b := open(t, cfg, weights, SessionOptions{KV: "f32"}), open(t, cfg, scaled, SessionOptions{KV: "f32"})
		for _, s := range []*Session{a, b} {
			if err := s.Feed(t.Context(), tokens); err != nil {
				t.Fatal(err)
			}
		}
		if c := cosine(a.Logits(), b.Logits()); !(c > 0.999999) {
			t.Errorf("%s: cosine %.7f with %d factors", name, c, len(factors))
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeltaRules: logits of the rival shapes after 20 tokens are those that llama.cpp
// computes too (TestArchitecturesAgainstLibllama).
func TestDeltaRules(t *testing.T) {
	for name, want := range map[string][4]float32{
		"qwen3next": {-0.6006, -0.7002, -0.2151, 1.9195},
		"qwen35":    {-0.5189, 0.5552, -0.3379, -0.1618},
		"qwen35moe": {-0.5767, 0.5150, 0.3283, 0.0804},
	} {
		cfg, weights := rival(name, func(*Config) {})
		s := open(t, cfg, weights, SessionOptions{KV: "f32"})
		if err := s.Feed(t.Context(), draw(20, cfg.Vocab)); err != nil {
			t.Fatal(err)
		}
		for i, v := range want {
			if got := s.Logits()[i]; !(got-v < 2e-3 && v-got < 2e-3) {
				t.Errorf("%s: logit %d: got %v, want %v", name, i, got, v)
			}
		}
	}
}

// TestProposingLayers: a file with a layer that proposes tokens computes the same
// logits as one without.
func TestProposingLayers(t *testing.T) {
	for _, name := range []string{"qwen3next", "qwen35", "qwen35moe"} {
		cfg := small(name)
		weights := weightsOf(cfg, 1)
		var logits [2][]float32
		for i := range logits {
			if cfg.Further = i; i == 1 {
				weights[arch.Block(cfg.Layers)+"nextn.eh_proj.weight"] = Array{[]int{2, 3}, make([]float32, 6)}
			}
			m, err := Load(write(t, cfg, weights, matrices(tensor.F32)), Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			s, err := m.NewSession(SessionOptions{KV: "f32"})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Feed(t.Context(), draw(20, cfg.Vocab)); err != nil {
				t.Fatal(err)
			}
			logits[i] = slices.Clone(s.Logits())
		}
		if !slices.Equal(logits[0], logits[1]) {
			t.Errorf("%s: the logits differ", name)
		}
	}
}
