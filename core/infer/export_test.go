package infer

import (
	"maps"
	"slices"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// Memory is a set of float32 tensors by GGUF names.
type Memory map[string]Array

// Array is a tensor in memory.
type Array struct {
	Dims []int // contiguous dimension first
	Data []float32
}

// Names returns the sorted names of the tensors.
func (m Memory) Names() []string { return slices.Sorted(maps.Keys(m)) }

// Tensor returns a copy of a tensor in GGUF's layout.
func (m Memory) Tensor(name string) (gguf.Tensor, bool) {
	a, ok := m[name]
	if !ok {
		return gguf.Tensor{}, false
	}
	data := make([]byte, 4*len(a.Data))
	quant.Quantize(data, a.Data, tensor.F32)
	return gguf.Tensor{Name: name, Type: tensor.F32, Dims: a.Dims, Size: int64(len(data)), Data: data}, true
}
