package llm

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"mm-abi.org/mm/train/nn"
)

// VariantCheck is the result of [Gradcheck] for a variant of the model.
type VariantCheck struct {
	Variant string
	Tensors []nn.Comparison
}

// Probe is the gradient of a tensor of a variant.
type Probe struct {
	Variant string  `json:"variant"`
	Tensor  string  `json:"tensor"`
	Probed  int     `json:"probed"`
	Error   float64 `json:"relative_error"`
}

// Worst returns the worst tensor of each check, those beyond the tolerance, or all, and
// counts those beyond it.
func Worst(checks []VariantCheck, tolerance float64, all bool) (list []Probe, beyond int) {
	for _, v := range checks {
		worst := slices.MaxFunc(v.Tensors, func(a, b nn.Comparison) int { return cmp.Compare(a.Error, b.Error) })
		for _, t := range v.Tensors {
			if t.Error > tolerance {
				beyond++
			}
			if all || t.Tensor == worst.Tensor || t.Error > tolerance {
				list = append(list, Probe{v.Variant, t.Tensor, t.Probed, t.Error})
			}
		}
	}
	return list, beyond
}

// CheckVariants checks the gradients of every variant of the model, each small
// enough for finite differences.
func CheckVariants(ctx context.Context, seed uint64) ([]VariantCheck, error) {
	variant := func(change func(*Config)) Config {
		c := Config{Vocab: 19, Dim: 12, Layers: 2, Heads: 3, Hidden: 20, Context: 16}
		change(&c)
		return c
	}
	var out []VariantCheck
	for _, v := range []struct {
		name   string
		change func(*Config)
		lora   *LoRA
	}{
		{"swiglu, half-split rope", func(*Config) {}, nil},
		{"interleaved rope", func(c *Config) { c.Rope = "interleaved" }, nil},
		{"relu²", func(c *Config) { c.Activation = "relu2" }, nil},
		{"grouped queries", func(c *Config) { c.Dim, c.Heads, c.KVHeads = 16, 4, 2 }, nil},
		{"query and key norm", func(c *Config) { c.QKNorm = true }, nil},
		{"tied head", func(c *Config) { c.Tied = true }, nil},
		{"embedding norm", func(c *Config) { c.EmbedNorm = true }, nil},
		{"rwkv", func(c *Config) { c.Mixer = RWKV }, nil},
		{"lora", func(*Config) {}, &LoRA{Rank: 2}},
	} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		tensors, err := Gradcheck(variant(v.change), GradcheckOptions{Seed: seed, LoRA: v.lora})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		out = append(out, VariantCheck{v.name, tensors})
	}
	return out, nil
}
