package tower

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tensor"
)

// Weights are the tensors of a tower and its projector, by the names of
// transformers.
type Weights map[string]Weight

// Weight is a tensor.
type Weight struct {
	Shape []int // outermost dimension first
	Type  tensor.Type
	Data  []byte
	// Foreign names a type that mm does not compute with; if empty, Type is set.
	Foreign string
}

// Safetensors returns tensors of safetensors files as weights.
func Safetensors(all map[string]safetensors.Tensor) Weights {
	out := Weights{}
	for name, t := range all {
		w := Weight{Shape: t.Shape, Data: t.Data}
		if typ, ok := t.DType.Type(); ok && (typ == tensor.F32 || typ == tensor.F16 || typ == tensor.BF16) {
			w.Type = typ
		} else {
			w.Foreign = string(t.DType)
		}
		out[name] = w
	}
	return out
}

// has reports whether a tensor exists.
func (w Weights) has(name string) bool { _, ok := w[name]; return ok }

// floats returns a tensor of the given dimensions, outermost first. Leading
// dimensions of 1 do not matter.
func (w Weights) floats(name string, dims ...int) ([]float32, error) {
	t, ok := w[name]
	if !ok {
		return nil, fmt.Errorf("missing tensor %s", name)
	}
	if t.Foreign != "" {
		return nil, fmt.Errorf("tensor %s: unsupported type %s, want F32, F16 or BF16", name, t.Foreign)
	}
	if !slices.Equal(narrow(t.Shape), narrow(dims)) {
		return nil, fmt.Errorf("shape mismatch for tensor %s: got %v, want %v", name, t.Shape, dims)
	}
	if err := quant.Finite(t.Data, t.Type); err != nil {
		return nil, fmt.Errorf("tensor %s: %w", name, err)
	}
	n := 1
	for _, d := range dims {
		n *= d
	}
	out := make([]float32, n)
	quant.Dequantize(out, t.Data, t.Type)
	return out, nil
}

// narrow removes leading dimensions of 1.
func narrow(dims []int) []int {
	for len(dims) > 1 && dims[0] == 1 {
		dims = dims[1:]
	}
	return dims
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
		"visual.", "model.visual.", "model.vision_encoder.", "vision_encoder.",
	}
}

// Has reports whether a tensor exists.
func (w Weights) Has(name string) bool { return w.has(name) }

// Floats returns a tensor of the given dimensions, outermost first.
func (w Weights) Floats(name string, dims ...int) ([]float32, error) { return w.floats(name, dims...) }

// Raw returns the elements of a tensor that has a type and dimensions, or nil.
func (w Weights) Raw(name string, typ tensor.Type, dims ...int) []byte {
	t, ok := w[name]
	if !ok || t.Foreign != "" || t.Type != typ || !slices.Equal(t.Shape, dims) || quant.Finite(t.Data, t.Type) != nil {
		return nil
	}
	return t.Data
}
