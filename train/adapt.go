package train

import (
	"fmt"
	"maps"
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
