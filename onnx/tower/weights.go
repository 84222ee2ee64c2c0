package tower

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tensor"
)

// Weights are the tensors of a folder by the names of transformers.
type Weights map[string]safetensors.Tensor

// has reports whether a tensor exists.
func (w Weights) has(name string) bool { _, ok := w[name]; return ok }

// floats returns a tensor of the given dimensions, outermost first.
func (w Weights) floats(name string, dims ...int) ([]float32, error) {
	t, ok := w[name]
	if !ok {
		return nil, fmt.Errorf("missing tensor %s", name)
	}
	typ, known := t.DType.Type()
	if !known || typ != tensor.F32 && typ != tensor.F16 && typ != tensor.BF16 {
		return nil, fmt.Errorf("tensor %s: unsupported type %s, want F32, F16 or BF16", name, t.DType)
	}
	if !slices.Equal(t.Shape, dims) {
		return nil, fmt.Errorf("shape mismatch for tensor %s: got %v, want %v", name, t.Shape, dims)
	}
	if err := quant.Finite(t.Data, typ); err != nil {
		return nil, fmt.Errorf("tensor %s: %w", name, err)
	}
	n := 1
	for _, d := range dims {
		n *= d
	}
	out := make([]float32, n)
	quant.Dequantize(out, t.Data, typ)
	return out, nil
}

// find returns the first of the prefixes with which a tensor exists, or the
// first one.
func (w Weights) find(name string, prefixes ...string) string {
	for _, p := range prefixes {
		if w.has(p + name) {
			return p
		}
	}
	return prefixes[0]
}

// towerPrefixes are those of published folders and of transformers 5.
func towerPrefixes() []string {
	return []string{
		"vision_tower.vision_model.", "vision_tower.", "model.vision_tower.vision_model.", "model.vision_tower.", "model.vision_model.", "vision_model.",
		"visual.", "model.visual.",
	}
}
