// Package tensor holds the element types of model weights and the float32
// kernels every other core package stands on.
//
// A Type is one of GGML's storage types: plain numbers (F32, F16, BF16) or
// blocks of quantised numbers sharing a scale (Q8_0, Q4_K, …). A row of n
// elements of type t takes t.RowBytes(n) bytes; rows are contiguous, the
// innermost dimension first, as in GGUF. The layouts are those of
// ggml/src/ggml-common.h; the numbers are GGUF's type ids (docs/gguf.md).
//
// Every kernel exists twice: in plain Go, the oracle, and in assembly chosen
// at start-up by CPU feature; a test holds the two together.
package tensor

import "fmt"

// Type is the storage type of a tensor's elements: GGML's type id as written
// in a GGUF file.
type Type uint32

// The types mm reads; the values are GGUF's.
const (
	F32  Type = 0  // IEEE binary32, little endian
	F16  Type = 1  // IEEE binary16, little endian
	Q4_0 Type = 2  // 32 × 4 bit, one f16 scale
	Q4_1 Type = 3  // 32 × 4 bit, f16 scale and f16 minimum
	Q5_0 Type = 6  // 32 × 5 bit, one f16 scale
	Q5_1 Type = 7  // 32 × 5 bit, f16 scale and f16 minimum
	Q8_0 Type = 8  // 32 × 8 bit, one f16 scale
	Q4_K Type = 12 // 256 × 4 bit in 8 groups, 6-bit scales and minima
	Q5_K Type = 13 // 256 × 5 bit in 8 groups, 6-bit scales and minima
	Q6_K Type = 14 // 256 × 6 bit in 16 groups, 8-bit scales
	Q8_K Type = 15 // 256 × 8 bit, f32 scale and group sums; activations only
	I8   Type = 24 // signed 8 bit
	I16  Type = 25 // signed 16 bit
	I32  Type = 26 // signed 32 bit
	I64  Type = 27 // signed 64 bit
	F64  Type = 28 // IEEE binary64
	BF16 Type = 30 // the upper half of a binary32
)

// geometry is how many elements and bytes one block of a type holds.
type geometry struct {
	name  string
	elems int
	bytes int
}

func (t Type) geometry() geometry {
	switch t {
	case F32:
		return geometry{"F32", 1, 4}
	case F16:
		return geometry{"F16", 1, 2}
	case Q4_0:
		return geometry{"Q4_0", 32, 18}
	case Q4_1:
		return geometry{"Q4_1", 32, 20}
	case Q5_0:
		return geometry{"Q5_0", 32, 22}
	case Q5_1:
		return geometry{"Q5_1", 32, 24}
	case Q8_0:
		return geometry{"Q8_0", 32, 34}
	case Q4_K:
		return geometry{"Q4_K", 256, 144}
	case Q5_K:
		return geometry{"Q5_K", 256, 176}
	case Q6_K:
		return geometry{"Q6_K", 256, 210}
	case Q8_K:
		return geometry{"Q8_K", 256, 292}
	case I8:
		return geometry{"I8", 1, 1}
	case I16:
		return geometry{"I16", 1, 2}
	case I32:
		return geometry{"I32", 1, 4}
	case I64:
		return geometry{"I64", 1, 8}
	case F64:
		return geometry{"F64", 1, 8}
	case BF16:
		return geometry{"BF16", 1, 2}
	}
	return geometry{}
}

// types lists every known type in the order of its id.
var types = []Type{F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, Q8_K, I8, I16, I32, I64, F64, BF16}

// Known reports whether t is a type this package has a layout for.
func (t Type) Known() bool { return t.geometry().elems != 0 }

// BlockSize is the number of elements in one block; 0 for an unknown type.
func (t Type) BlockSize() int { return t.geometry().elems }

// BlockBytes is the number of bytes of one block; 0 for an unknown type.
func (t Type) BlockBytes() int { return t.geometry().bytes }

// RowBytes is the number of bytes that n elements take. It panics when t is
// unknown or n is no multiple of the block size: callers check files first.
func (t Type) RowBytes(n int) int {
	g := t.geometry()
	if g.elems == 0 || n < 0 || n%g.elems != 0 {
		panic("tensor: row is no whole number of blocks")
	}
	return n / g.elems * g.bytes
}

// String is GGML's name of the type, such as "Q4_K".
func (t Type) String() string {
	if g := t.geometry(); g.elems != 0 {
		return g.name
	}
	return fmt.Sprintf("type(%d)", uint32(t))
}

// ParseType finds a type by GGML's name, upper case as String prints it.
func ParseType(name string) (Type, error) {
	for _, t := range types {
		if t.geometry().name == name {
			return t, nil
		}
	}
	return 0, fmt.Errorf("unknown tensor type %q", name)
}
