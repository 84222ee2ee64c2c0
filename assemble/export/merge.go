package export

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds/resolve"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/infer/adapter"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// Adapter is an adapter of the core that is exported.
type Adapter struct {
	Module *resolve.Module
	Scale  float64
}

// changes returns the adapters of the core.
func (s Sink) changes() (list []changed, err error) {
	for _, a := range s.Adapters {
		entry := a.Module.Manifest.Entry(abi.GGUF)
		if entry == "" {
			return nil, fmt.Errorf("adapter %s exports no gguf, which is merged into its core", a.Module.Manifest.ID())
		}
		l, err := s.Layer(a.Module, entry)
		if err != nil {
			return nil, err
		}
		list = append(list, changed{a.Module.Manifest.ID(), l.Descriptor.Digest.String(), s.Store.BlobPath(l.Descriptor), a.Scale})
	}
	return list, nil
}

// merge returns a model with the changes in its weights, which become float32.
func merge(f *gguf.File, s arch.Shape, changes []changed) (*gguf.File, error) {
	if len(changes) == 0 {
		return f, nil
	}
	wide := map[string][]float32{}
	for _, c := range changes {
		a, err := adapter.Open(c.path, adapter.Model{Arch: s.Arch, Heads: s.Heads, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Interleaved: s.Reordered()})
		if err != nil {
			return nil, fmt.Errorf("adapter %s: %w", c.name, err)
		}
		for _, name := range slices.Sorted(maps.Keys(a)) {
			if err := apply(f, wide, name, a[name], c.scale); err != nil {
				return nil, fmt.Errorf("adapter %s: %w", c.name, err)
			}
		}
	}
	var sources []gguf.Source
	for _, t := range f.Tensors {
		source := gguf.Source{Name: t.Name, Type: t.Type, Dims: t.Dims, Data: gguf.Bytes(t.Data)}
		if w, ok := wide[t.Name]; ok {
			source.Type, source.Data = tensor.F32, gguf.Bytes(Float32s(w))
		}
		sources = append(sources, source)
	}
	var out bytes.Buffer
	if _, err := gguf.Write(&out, f.KVs, sources); err != nil {
		return nil, err
	}
	return gguf.Parse(out.Bytes())
}

// apply merges the change of a matrix at a strength.
func apply(f *gguf.File, wide map[string][]float32, name string, c adapter.Change, strength float64) error {
	t, ok := f.Tensor(name)
	if !ok || name == arch.TokenEmbedding || len(t.Dims) != 2 || t.Dims[0] != c.In || t.Dims[1] != c.Out || !quant.CanDequantize(t.Type) {
		return fmt.Errorf("tensor %s: got a change of %d × %d, want one of a matrix of the core", name, c.In, c.Out)
	}
	c, err := c.Scaled(float32(strength))
	if err != nil {
		return err
	}
	w := wide[name]
	if w == nil {
		w = make([]float32, c.In*c.Out)
		quant.Dequantize(w, t.Data, t.Type)
	} else if c.Magnitude != nil {
		return fmt.Errorf("tensor %s: a DoRA adapter must be the first", name)
	}
	c.Merge(w)
	wide[name] = w
	return nil
}
