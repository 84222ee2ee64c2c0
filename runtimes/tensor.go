package runtimes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
)

// Elem is the type of a tensor's elements, spelled as in manifests.
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

	Float8E4M3FN   Elem = "fp8e4m3fn"
	Float8E4M3FNUZ Elem = "fp8e4m3fnuz"
	Float8E5M2     Elem = "fp8e5m2"
	Float8E5M2FNUZ Elem = "fp8e5m2fnuz"
	Float8E8M0     Elem = "fp8e8m0"
	// Several elements share a byte; the first is in its low bits.
	Float4E2M1 Elem = "fp4e2m1"
	Int4       Elem = "int4"
	Uint4      Elem = "uint4"
	Int2       Elem = "int2"
	Uint2      Elem = "uint2"
	// String is text or bytes: for each element its length in four bytes, little
	// endian, then its bytes.
	String Elem = "string"
)

// Size returns the bytes of an element, or 0 if the type is unknown, or its
// elements share bytes or differ in size.
func (e Elem) Size() int {
	if b := e.Bits(); b%8 == 0 {
		return b / 8
	}
	return 0
}

// Bits returns the bits of an element, or 0 for String and unknown types.
func (e Elem) Bits() int {
	switch e {
	case Float64, Int64, Uint64:
		return 64
	case Float32, Int32, Uint32:
		return 32
	case Float16, BFloat16, Int16, Uint16:
		return 16
	case Int8, Uint8, Bool, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0:
		return 8
	case Float4E2M1, Int4, Uint4:
		return 4
	case Int2, Uint2:
		return 2
	}
	return 0
}

// Tensor holds numbers in row-major order, little endian.
type Tensor struct {
	Type  Elem
	Shape []int64 // empty for a scalar
	Data  []byte
}

// maxRank bounds the dimensions of a tensor.
const maxRank = 32

// Check reports a tensor whose data does not match its type and shape.
func (t Tensor) Check() error {
	size := uint64(t.Type.Bits())
	if size == 0 && t.Type != String {
		return fmt.Errorf("unknown element type %q", t.Type)
	}
	if len(t.Shape) > maxRank {
		return fmt.Errorf("tensor has %d dimensions, limit %d", len(t.Shape), maxRank)
	}
	if t.Type == String {
		_, err := t.Strings()
		return err
	}
	empty, over := false, false
	for _, d := range t.Shape {
		if d < 0 {
			return fmt.Errorf("tensor shape %v: negative dimension", t.Shape)
		}
		empty = empty || d == 0
		hi, lo := bits.Mul64(size, uint64(max(d, 1)))
		over = over || hi != 0 || lo > 1<<62
		size = lo
	}
	if empty {
		size, over = 0, false
	}
	if over || (size+7)/8 != uint64(len(t.Data)) {
		return fmt.Errorf("tensor of %s %v has %d bytes of data", t.Type, t.Shape, len(t.Data))
	}
	return nil
}

// Strings returns a tensor of texts.
func Strings(shape []int64, texts []string) Tensor {
	t := Tensor{Type: String, Shape: shape}
	for _, s := range texts {
		t.Data = append(binary.LittleEndian.AppendUint32(t.Data, uint32(len(s))), s...)
	}
	return t
}

// Strings returns the elements of a tensor of texts.
func (t Tensor) Strings() ([]string, error) {
	if t.Type != String {
		return nil, fmt.Errorf("tensor of %s, want %s", t.Type, String)
	}
	var texts []string
	for b := t.Data; len(b) > 0; {
		if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
			return nil, errors.New("tensor of texts: data truncated")
		}
		n := binary.LittleEndian.Uint32(b)
		texts, b = append(texts, string(b[4:4+n])), b[4+n:]
	}
	n := uint64(1)
	for _, d := range t.Shape {
		if d < 0 {
			return nil, fmt.Errorf("tensor shape %v: negative dimension", t.Shape)
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if n = lo; hi != 0 {
			n = 1 << 63 // longer than any slice; a later dimension may be 0
		}
	}
	if n != uint64(len(texts)) {
		return nil, fmt.Errorf("tensor of string %v holds %d texts", t.Shape, len(texts))
	}
	return texts, nil
}

// Misfits reports every input that is invalid, unknown, missing, or of another type or shape
// than in want, whose data are not read.
func Misfits(in, want map[string]Tensor) error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(in)) {
		w, ok := want[name]
		t := in[name]
		switch {
		case !ok:
			faults = append(faults, fmt.Errorf("unknown input %s, want one of %v", name, slices.Sorted(maps.Keys(want))))
		case t.Check() != nil:
			faults = append(faults, fmt.Errorf("input %s: %w", name, t.Check()))
		case t.Type != w.Type || !slices.Equal(t.Shape, w.Shape):
			faults = append(faults, fmt.Errorf("input %s: got %s %v, want %s %v", name, t.Type, t.Shape, w.Type, w.Shape))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, ok := in[name]; !ok {
			faults = append(faults, fmt.Errorf("missing input %s", name))
		}
	}
	return errors.Join(faults...)
}
