package convert

import "testing"

// TestLimits has a header at the limit of each number, and one beyond it.
func TestLlama2cLimits(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit int
		set   func(c *Config, n int)
	}{
		{"dim", 1 << 15, func(c *Config, n int) { c.Dim = n }},
		{"hidden_dim", 1 << 17, func(c *Config, n int) { c.Hidden = n }},
		{"n_layers", 512, func(c *Config, n int) { c.Layers = n }},
		{"n_heads", 1 << 10, func(c *Config, n int) { c.Heads, c.Dim = n, 2*n }},
		{"n_kv_heads", 1 << 10, func(c *Config, n int) { c.Heads, c.KVHeads, c.Dim = 1<<10, n, 1<<11 }},
		{"vocab_size", maxFigure, func(c *Config, n int) { c.Vocab = n }},
		{"seq_len", maxFigure, func(c *Config, n int) { c.Context = n }},
	} {
		for n, want := range map[int]bool{0: false, c.limit: true, c.limit + 1: false} {
			h := Config{Dim: 2, Hidden: 1, Layers: 1, Heads: 1, KVHeads: 1, Vocab: 1, Context: 1}
			c.set(&h, n)
			if err := h.check(); (err == nil) != want {
				t.Errorf("%s: %d: %v", c.name, n, err)
			}
		}
	}
}
