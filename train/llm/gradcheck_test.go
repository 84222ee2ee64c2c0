package llm

import (
	"fmt"
	"testing"
)

// variants returns small models that together use every option.
func variants() map[string]Config {
	base := Config{Vocab: 23, Dim: 12, Layers: 2, Heads: 2, Hidden: 20, Context: 16}
	with := func(f func(*Config)) Config { c := base; f(&c); return c }
	return map[string]Config{
		"plain":       base,
		"interleaved": with(func(c *Config) { c.Rope = RopePairs }),
		"relu2":       with(func(c *Config) { c.Activation = ReLU2 }),
		"gqa":         with(func(c *Config) { c.Heads, c.KVHeads, c.HeadDim = 4, 2, 6 }),
		"mqa":         with(func(c *Config) { c.Heads, c.KVHeads, c.HeadDim = 3, 1, 4 }),
		"qk-norm":     with(func(c *Config) { c.QKNorm = true }),
		"tied":        with(func(c *Config) { c.Tied = true }),
		"embed-norm":  with(func(c *Config) { c.EmbedNorm = true }),
		"tied-norm":   with(func(c *Config) { c.Tied, c.EmbedNorm = true, true }),
		"rwkv":        with(func(c *Config) { c.Mixer = RWKV }),
		"rwkv-relu2":  with(func(c *Config) { c.Mixer, c.Activation, c.Tied = RWKV, ReLU2, true }),
		"everything": with(func(c *Config) {
			c.Heads, c.KVHeads, c.HeadDim, c.QKNorm, c.EmbedNorm, c.Rope = 4, 2, 4, true, true, RopePairs
		}),
		"wide-head-dim": with(func(c *Config) { c.Heads, c.HeadDim = 1, 16 }),
	}
}

// Every gradient of every variant agrees with central differences in float64.
func TestGradcheck(t *testing.T) {
	for name, c := range variants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entries := 20
			if testing.Short() {
				entries = 10
			}
			results, err := Gradcheck(c, GradcheckOptions{Seed: 7, Entries: entries})
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, r := range results {
				seen[r.Tensor] = true
				if !(r.Error <= 1e-6) || r.Norm == 0 {
					t.Errorf("%-34s relative error %.2g, norm %.2g", r.Tensor, r.Error, r.Norm)
				}
			}
			for _, s := range c.WithDefaults().specs() {
				if !seen[s.Name] {
					t.Errorf("%s was not checked", s.Name)
				}
			}
		})
	}
}

// LoRA gradients agree with differences, for all matrices and for selected
// ones.
func TestGradcheckLoRA(t *testing.T) {
	for name, c := range variants() {
		for _, targets := range [][]string{nil, {"ffn_down"}} {
			t.Run(fmt.Sprint(name, targets), func(t *testing.T) {
				t.Parallel()
				if testing.Short() && targets == nil {
					t.Skip("skipped: -short")
				}
				results, err := Gradcheck(c, GradcheckOptions{Seed: 3, Entries: 6, LoRA: &LoRA{Rank: 3, Alpha: 5, Targets: targets}})
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range results {
					if !(r.Error <= 1e-6) || r.Norm == 0 {
						t.Errorf("%-34s relative error %.2g, norm %.2g", r.Tensor, r.Error, r.Norm)
					}
				}
				if want := 2*len(targets)*c.Layers + 1; targets != nil && len(results) != want {
					t.Errorf("%d tensors checked, want %d", len(results), want)
				}
			})
		}
	}
}
