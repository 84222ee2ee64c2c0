package runtimes

import (
	"fmt"
	"math/bits"
)

// Elem is the type of a tensor's elements, spelled as in manifests. Storage
// types such as int4, of which several share a byte, are none.
type Elem string

// The element types.
const (
	Float64  Elem = "fp64"
	Float32  Elem = "fp32"
	Float16  Elem = "fp16"
	BFloat16 Elem = "bf16"
	Int64    Elem = "int64"
	Int32    Elem = "int32"
	Int16    Elem = "int16"
	Int8     Elem = "int8"
	Uint64   Elem = "uint64"
	Uint32   Elem = "uint32"
	Uint16   Elem = "uint16"
	Uint8    Elem = "uint8"
	Bool     Elem = "bool" // a byte, 0 or 1
)

// Size is the number of bytes of an element; 0 for a type that is none.
func (e Elem) Size() int {
	switch e {
	case Float64, Int64, Uint64:
		return 8
	case Float32, Int32, Uint32:
		return 4
	case Float16, BFloat16, Int16, Uint16:
		return 2
	case Int8, Uint8, Bool:
		return 1
	}
	return 0
}

// Tensor is numbers in row-major order, little endian.
type Tensor struct {
	Type  Elem
	Shape []int64 // none for a single number
	Data  []byte
}

// maxRank bounds the dimensions of a tensor.
const maxRank = 32

// Check reports a tensor whose data is not what type and shape say.
func (t Tensor) Check() error {
	size := uint64(t.Type.Size())
	if size == 0 {
		return fmt.Errorf("a tensor of %q: no element type", t.Type)
	}
	if len(t.Shape) > maxRank {
		return fmt.Errorf("a tensor of %d dimensions, the limit is %d", len(t.Shape), maxRank)
	}
	empty, over := false, false
	for _, d := range t.Shape {
		if d < 0 {
			return fmt.Errorf("a tensor of shape %v: a dimension is negative", t.Shape)
		}
		empty = empty || d == 0
		hi, lo := bits.Mul64(size, uint64(max(d, 1)))
		over = over || hi != 0 || lo > 1<<62
		size = lo
	}
	if empty {
		size, over = 0, false
	}
	if over || size != uint64(len(t.Data)) {
		return fmt.Errorf("a tensor of %s %v has %d bytes of data", t.Type, t.Shape, len(t.Data))
	}
	return nil
}
