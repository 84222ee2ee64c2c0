package llm

import (
	"context"
	"fmt"

	"mm-abi.org/mm/train/nn"
)

// VariantCheck is the result of [Gradcheck] for a variant of the model.
type VariantCheck struct {
	Variant string
	Tensors []nn.Comparison
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
