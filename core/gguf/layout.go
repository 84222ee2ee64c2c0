package gguf

import "mm-abi.org/mm/core/tensor"

// geometry is the number of elements and of bytes in a block of type t. It
// knows the types that package tensor computes with and, so that a file for
// another engine can be checked as well, every other type that ggml 0.25
// reads; the figures are those of ggml/src/ggml-common.h.
func geometry(t tensor.Type) (elems, bytes int, ok bool) {
	if t.Known() {
		return t.BlockSize(), t.BlockBytes(), true
	}
	g, ok := foreign[uint32(t)]
	return g.elems, g.bytes, ok
}

type blockShape struct {
	name         string
	elems, bytes int
}

var foreign = map[uint32]blockShape{
	9:  {"Q8_1", 32, 36},
	10: {"Q2_K", 256, 84},
	11: {"Q3_K", 256, 110},
	16: {"IQ2_XXS", 256, 66},
	17: {"IQ2_XS", 256, 74},
	18: {"IQ3_XXS", 256, 98},
	19: {"IQ1_S", 256, 50},
	20: {"IQ4_NL", 32, 18},
	21: {"IQ3_S", 256, 110},
	22: {"IQ2_S", 256, 82},
	23: {"IQ4_XS", 256, 136},
	29: {"IQ1_M", 256, 56},
	34: {"TQ1_0", 256, 54},
	35: {"TQ2_0", 256, 66},
	39: {"MXFP4", 32, 17},
	40: {"NVFP4", 64, 36},
	41: {"Q1_0", 128, 18},
	42: {"Q2_0", 64, 18},
}

// TensorTypeName is ggml's name of an element type, including those that
// package tensor has no kernels for.
func TensorTypeName(t tensor.Type) string {
	if g, ok := foreign[uint32(t)]; ok && !t.Known() {
		return g.name
	}
	return t.String()
}
