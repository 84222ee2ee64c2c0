package htp

import "fmt"

// DType is the element type of a tensor, numbered as in QNN. The hexadecimal
// digits spell the width in decimal: 0x0232 is a 32-bit float.
type DType uint32

// The element types.
const (
	Int8     DType = 0x0008
	Int16    DType = 0x0016
	Int32    DType = 0x0032
	Int64    DType = 0x0064
	Uint8    DType = 0x0108
	Uint16   DType = 0x0116
	Uint32   DType = 0x0132
	Uint64   DType = 0x0164
	Float16  DType = 0x0216
	Float32  DType = 0x0232
	Float64  DType = 0x0264
	SFixed4  DType = 0x0304
	SFixed8  DType = 0x0308
	SFixed16 DType = 0x0316
	SFixed32 DType = 0x0332
	UFixed4  DType = 0x0404
	UFixed8  DType = 0x0408
	UFixed16 DType = 0x0416
	UFixed32 DType = 0x0432
	Bool8    DType = 0x0508
)

// element describes an element type.
type element struct {
	name string
	bits int
	onnx string // the element type of an ONNX tensor with the same bits
}

// elementOf describes the known types; fixed ones are integers with a scale.
func elementOf(d DType) (element, bool) {
	switch d {
	case Int8:
		return element{"int8", 8, "int8"}, true
	case Int16:
		return element{"int16", 16, "int16"}, true
	case Int32:
		return element{"int32", 32, "int32"}, true
	case Int64:
		return element{"int64", 64, "int64"}, true
	case Uint8:
		return element{"uint8", 8, "uint8"}, true
	case Uint16:
		return element{"uint16", 16, "uint16"}, true
	case Uint32:
		return element{"uint32", 32, "uint32"}, true
	case Uint64:
		return element{"uint64", 64, "uint64"}, true
	case Float16:
		return element{"float16", 16, "float16"}, true
	case Float32:
		return element{"float32", 32, "float32"}, true
	case Float64:
		return element{"float64", 64, "float64"}, true
	case SFixed4:
		return element{"sfixed4", 4, ""}, true
	case SFixed8:
		return element{"sfixed8", 8, "int8"}, true
	case SFixed16:
		return element{"sfixed16", 16, "int16"}, true
	case SFixed32:
		return element{"sfixed32", 32, "int32"}, true
	case UFixed4:
		return element{"ufixed4", 4, ""}, true
	case UFixed8:
		return element{"ufixed8", 8, "uint8"}, true
	case UFixed16:
		return element{"ufixed16", 16, "uint16"}, true
	case UFixed32:
		return element{"ufixed32", 32, "uint32"}, true
	case Bool8:
		return element{"bool8", 8, "bool"}, true
	}
	return element{}, false
}

// String returns the type's name, or its number if unknown.
func (d DType) String() string {
	if e, ok := elementOf(d); ok {
		return e.name
	}
	return fmt.Sprintf("0x%04x", uint32(d))
}

// Fixed reports whether the type is an integer with a scale. The 4-bit types
// and the unsigned 32-bit type are not included: no file uses them.
func (d DType) Fixed() bool {
	switch d {
	case UFixed8, UFixed16, SFixed8, SFixed16, SFixed32:
		return true
	}
	return false
}

// Known reports whether the type is in the list above.
func (d DType) Known() bool {
	_, ok := elementOf(d)
	return ok
}

// ONNX returns the ONNX element type with the same bits, or "".
func (d DType) ONNX() string {
	e, _ := elementOf(d)
	return e.onnx
}

// Size returns the number of bytes of n elements, packing two 4-bit elements
// into a byte. It returns false for an unknown type, a negative n and more than
// 2^56 elements.
func (d DType) Size(n int64) (int64, bool) {
	e, ok := elementOf(d)
	if !ok || n < 0 || n > 1<<56 {
		return 0, false
	}
	return (n*int64(e.bits) + 7) / 8, true
}
