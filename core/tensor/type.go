// Package tensor defines the element types of model weights and the float32
// kernels of all other core packages.
//
// A Type is one of GGML's storage types: plain numbers (F32, F16, BF16) or
// blocks of quantized numbers that share a scale (Q8_0, Q4_K, …). A row of n
// elements of type t takes t.RowBytes(n) bytes; rows are contiguous, the
// innermost dimension first, as in GGUF. The layouts are those of
// ggml/src/ggml-common.h; the numbers are GGUF's type ids (docs/gguf.md).
//
// Every kernel exists twice: in plain Go, the oracle, and in assembly, selected
// at start-up by CPU feature; tests compare the two.
package tensor

import "fmt"

// Type is the storage type of a tensor's elements: GGML's type id in a GGUF
// file.
type Type uint32

// The types of ggml 0.25; the values are GGUF's. Package core/quant documents
// which of them it reads and writes. The missing ids belonged to types that
// ggml has removed.
const (
	F32     Type = 0  // IEEE binary32, little endian
	F16     Type = 1  // IEEE binary16, little endian
	Q4_0    Type = 2  // 32 × 4 bit, one f16 scale
	Q4_1    Type = 3  // 32 × 4 bit, f16 scale and f16 minimum
	Q5_0    Type = 6  // 32 × 5 bit, one f16 scale
	Q5_1    Type = 7  // 32 × 5 bit, f16 scale and f16 minimum
	Q8_0    Type = 8  // 32 × 8 bit, one f16 scale
	Q8_1    Type = 9  // 32 × 8 bit, f16 scale and sum; activations only
	Q2_K    Type = 10 // 256 × 2 bit in 16 groups, 4-bit scales and minima
	Q3_K    Type = 11 // 256 × 3 bit in 16 groups, 6-bit scales
	Q4_K    Type = 12 // 256 × 4 bit in 8 groups, 6-bit scales and minima
	Q5_K    Type = 13 // 256 × 5 bit in 8 groups, 6-bit scales and minima
	Q6_K    Type = 14 // 256 × 6 bit in 16 groups, 8-bit scales
	Q8_K    Type = 15 // 256 × 8 bit, f32 scale and group sums; activations only
	IQ2_XXS Type = 16 // 256 × 2.06 bit, points of a grid
	IQ2_XS  Type = 17 // 256 × 2.31 bit, points of a grid
	IQ3_XXS Type = 18 // 256 × 3.06 bit, points of a grid
	IQ1_S   Type = 19 // 256 × 1.56 bit, points of a grid
	IQ4_NL  Type = 20 // 32 × 4 bit into a table of 16 values, one f16 scale
	IQ3_S   Type = 21 // 256 × 3.44 bit, points of a grid
	IQ2_S   Type = 22 // 256 × 2.56 bit, points of a grid
	IQ4_XS  Type = 23 // 256 × 4 bit into IQ4_NL's table in 8 groups, 6-bit scales
	I8      Type = 24 // signed 8 bit
	I16     Type = 25 // signed 16 bit
	I32     Type = 26 // signed 32 bit
	I64     Type = 27 // signed 64 bit
	F64     Type = 28 // IEEE binary64
	IQ1_M   Type = 29 // 256 × 1.75 bit, points of a grid
	BF16    Type = 30 // the upper half of a binary32
	TQ1_0   Type = 34 // 256 × 1.69 bit, ternary
	TQ2_0   Type = 35 // 256 × 2.06 bit, ternary
	MXFP4   Type = 39 // 32 × E2M1, one power of two (OCP Microscaling formats 1.0)
	NVFP4   Type = 40 // 64 × E2M1 in 4 groups, E4M3 scales
	Q1_0    Type = 41 // 128 × 1 bit, one f16 scale
	Q2_0    Type = 42 // 64 × 2 bit, one f16 scale
)

// geometry holds the number of elements and bytes of one block of a type.
type geometry struct {
	name  string
	elems int
	bytes int
}

// geometries holds the layout of every type by its id.
var geometries = [...]geometry{
	F32: {"F32", 1, 4}, F16: {"F16", 1, 2}, BF16: {"BF16", 1, 2}, F64: {"F64", 1, 8},
	I8: {"I8", 1, 1}, I16: {"I16", 1, 2}, I32: {"I32", 1, 4}, I64: {"I64", 1, 8},
	Q4_0: {"Q4_0", 32, 18}, Q4_1: {"Q4_1", 32, 20}, Q5_0: {"Q5_0", 32, 22}, Q5_1: {"Q5_1", 32, 24},
	Q8_0: {"Q8_0", 32, 34}, Q8_1: {"Q8_1", 32, 36}, Q1_0: {"Q1_0", 128, 18}, Q2_0: {"Q2_0", 64, 18},
	Q2_K: {"Q2_K", 256, 84}, Q3_K: {"Q3_K", 256, 110}, Q4_K: {"Q4_K", 256, 144},
	Q5_K: {"Q5_K", 256, 176}, Q6_K: {"Q6_K", 256, 210}, Q8_K: {"Q8_K", 256, 292},
	IQ1_S: {"IQ1_S", 256, 50}, IQ1_M: {"IQ1_M", 256, 56}, IQ2_XXS: {"IQ2_XXS", 256, 66},
	IQ2_XS: {"IQ2_XS", 256, 74}, IQ2_S: {"IQ2_S", 256, 82}, IQ3_XXS: {"IQ3_XXS", 256, 98},
	IQ3_S: {"IQ3_S", 256, 110}, IQ4_NL: {"IQ4_NL", 32, 18}, IQ4_XS: {"IQ4_XS", 256, 136},
	TQ1_0: {"TQ1_0", 256, 54}, TQ2_0: {"TQ2_0", 256, 66}, MXFP4: {"MXFP4", 32, 17}, NVFP4: {"NVFP4", 64, 36},
}

func (t Type) geometry() geometry {
	if t < Type(len(geometries)) {
		return geometries[t]
	}
	return geometry{}
}

// Known reports whether the package has a layout for t.
func (t Type) Known() bool { return t.geometry().elems != 0 }

// BlockSize returns the number of elements of one block; 0 for an unknown type.
func (t Type) BlockSize() int { return t.geometry().elems }

// BlockBytes returns the number of bytes of one block; 0 for an unknown type.
func (t Type) BlockBytes() int { return t.geometry().bytes }

// RowBytes returns the number of bytes of n elements. It panics if t is unknown
// or n is not a multiple of the block size: callers validate files first.
func (t Type) RowBytes(n int) int {
	g := t.geometry()
	if g.elems == 0 || n < 0 || n%g.elems != 0 {
		panic("tensor: row is not a multiple of the block size")
	}
	return n / g.elems * g.bytes
}

// String returns GGML's name of the type, such as "Q4_K".
func (t Type) String() string {
	if g := t.geometry(); g.elems != 0 {
		return g.name
	}
	return fmt.Sprintf("type(%d)", uint32(t))
}

// ParseType returns the type with the given GGML name, upper case as String
// prints it.
func ParseType(name string) (Type, error) {
	for id, g := range geometries {
		if g.name == name && name != "" {
			return Type(id), nil
		}
	}
	return 0, fmt.Errorf("unknown tensor type %q", name)
}
