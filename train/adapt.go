package train

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/core/infer/adapter"
	"mm-abi.org/mm/train/llm"
)

// MergeAdapter adds the changes of a low-rank adapter, a GGUF file or a PEFT
// folder, to the matrices of m.
func MergeAdapter(m *llm.Model[float32], path string) error {
	cfg := m.Config
	changes, err := adapter.Open(path, adapter.Model{Heads: cfg.Heads, KVHeads: cfg.KVHeads, HeadDim: cfg.HeadDim, Interleaved: cfg.Rope == llm.RopePairs})
	if err != nil {
		return err
	}
	for _, t := range m.Tensors() {
		c, ok := changes[t.Name]
		if !ok {
			continue
		}
		if len(t.Shape) != 2 || t.Shape[0] != c.Out || t.Shape[1] != c.In {
			return fmt.Errorf("%s: tensor %s: shape mismatch: got [%d %d], want %v", path, t.Name, c.Out, c.In, t.Shape)
		}
		c.Merge(t.Data)
		delete(changes, t.Name)
	}
	if rest := slices.Sorted(maps.Keys(changes)); len(rest) > 0 {
		return fmt.Errorf("%s: unknown tensors %v", path, rest)
	}
	m.Stale()
	return nil
}

// BeginAdapter initializes the adapters of m from a low-rank adapter, which
// must have the same rank, scale and matrices.
func BeginAdapter(m *llm.Model[float32], lora llm.LoRA, path string) error {
	cfg := m.Config
	changes, err := adapter.Open(path, adapter.Model{Heads: cfg.Heads, KVHeads: cfg.KVHeads, HeadDim: cfg.HeadDim, Interleaved: cfg.Rope == llm.RopePairs})
	if err != nil {
		return err
	}
	alpha := lora.Alpha
	if alpha == 0 {
		alpha = float64(lora.Rank)
	}
	all := m.Adapters()
	if len(all) != 2*len(changes) {
		return fmt.Errorf("%s: adapter has %d matrices, want %d", path, len(changes), len(all)/2)
	}
	for _, t := range all {
		base, low := loraName(t.Name)
		c, ok := changes[base]
		if !ok {
			return fmt.Errorf("%s: missing matrix %s", path, base)
		}
		if c.Magnitude != nil || c.Scale != float32(alpha/float64(lora.Rank)) {
			return fmt.Errorf("%s: adapter scale %v, want %v", path, c.Scale, alpha/float64(lora.Rank))
		}
		data, rows, cols := c.A, c.Rank, c.In
		if low == ".lora_b" {
			data, rows, cols = c.B, c.Out, c.Rank
		}
		if !slices.Equal(t.Shape, []int{rows, cols}) {
			return fmt.Errorf("%s: tensor %s: shape mismatch: got [%d %d], want %v", path, t.Name, rows, cols, t.Shape)
		}
		copy(t.Data, data)
	}
	m.Stale()
	return nil
}

// loraName splits the name of an adapter's tensor into its matrix and suffix.
func loraName(name string) (base, low string) {
	low = filepath.Ext(name)
	return name[:len(name)-len(low)], low
}
