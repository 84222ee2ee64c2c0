package onnx

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// DType is an element type, with TensorProto.DataType's numbers.
type DType int32

// The element types.
const (
	FLOAT          DType = 1
	UINT8          DType = 2
	INT8           DType = 3
	UINT16         DType = 4
	INT16          DType = 5
	INT32          DType = 6
	INT64          DType = 7
	STRING         DType = 8
	BOOL           DType = 9
	FLOAT16        DType = 10
	DOUBLE         DType = 11
	UINT32         DType = 12
	UINT64         DType = 13
	COMPLEX64      DType = 14
	COMPLEX128     DType = 15
	BFLOAT16       DType = 16
	FLOAT8E4M3FN   DType = 17
	FLOAT8E4M3FNUZ DType = 18
	FLOAT8E5M2     DType = 19
	FLOAT8E5M2FNUZ DType = 20
	UINT4          DType = 21
	INT4           DType = 22
	FLOAT4E2M1     DType = 23
	FLOAT8E8M0     DType = 24
	UINT2          DType = 25
	INT2           DType = 26
	FLOAT6E2M3     DType = 27
	FLOAT6E3M2     DType = 28
)

// dtypes lists, by number, the name, the bits of one element in raw_data (0 for
// strings) and the typed field of TensorProto for the elements.
var dtypes = [...]struct {
	name  string
	bits  uint64
	field int
}{
	FLOAT: {"float32", 32, floatData}, UINT8: {"uint8", 8, int32Data}, INT8: {"int8", 8, int32Data},
	UINT16: {"uint16", 16, int32Data}, INT16: {"int16", 16, int32Data}, INT32: {"int32", 32, int32Data},
	INT64: {"int64", 64, int64Data}, STRING: {"string", 0, stringData}, BOOL: {"bool", 8, int32Data},
	FLOAT16: {"float16", 16, int32Data}, DOUBLE: {"float64", 64, doubleData}, UINT32: {"uint32", 32, uint64Data},
	UINT64: {"uint64", 64, uint64Data}, COMPLEX64: {"complex64", 64, floatData}, COMPLEX128: {"complex128", 128, doubleData},
	BFLOAT16: {"bfloat16", 16, int32Data}, FLOAT8E4M3FN: {"float8e4m3fn", 8, int32Data},
	FLOAT8E4M3FNUZ: {"float8e4m3fnuz", 8, int32Data}, FLOAT8E5M2: {"float8e5m2", 8, int32Data},
	FLOAT8E5M2FNUZ: {"float8e5m2fnuz", 8, int32Data}, UINT4: {"uint4", 4, int32Data}, INT4: {"int4", 4, int32Data},
	FLOAT4E2M1: {"float4e2m1", 4, int32Data}, FLOAT8E8M0: {"float8e8m0", 8, int32Data},
	UINT2: {"uint2", 2, int32Data}, INT2: {"int2", 2, int32Data},
	FLOAT6E2M3: {"float6e2m3", 6, int32Data}, FLOAT6E3M2: {"float6e3m2", 6, int32Data},
}

// The fields of TensorProto that hold elements.
const (
	floatData  = 4
	int32Data  = 5
	stringData = 6
	int64Data  = 7
	rawData    = 9
	doubleData = 10
	uint64Data = 11
)

// Known reports whether onnx.proto 1.23 defines d.
func (d DType) Known() bool { return d > 0 && int(d) < len(dtypes) }

// String returns the type's name, such as "float32".
func (d DType) String() string {
	if d.Known() {
		return dtypes[d].name
	}
	return fmt.Sprintf("dtype(%d)", int32(d))
}

// DTypeOf returns the type with the given name, as formatted by String.
func DTypeOf(name string) (DType, bool) {
	for d := FLOAT; d.Known(); d++ {
		if dtypes[d].name == name {
			return d, true
		}
	}
	return 0, false
}

// elements returns the product of dimensions; false if one is negative or the
// product exceeds 2^63.
func elements(dims []int64) (int64, bool) {
	total, empty := uint64(1), false
	for _, d := range dims {
		if d < 0 {
			return 0, false
		}
		if d == 0 {
			empty = true
			continue
		}
		hi, lo := bits.Mul64(total, uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, false
		}
		total = lo
	}
	if empty {
		return 0, true
	}
	return int64(total), true
}

// rawSize returns the number of bytes of n elements in raw_data.
func (d DType) rawSize(n int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(n), dtypes[d].bits)
	if hi != 0 || lo > math.MaxInt64 {
		return 0, false
	}
	return int64((lo + 7) / 8), true
}

// Elements returns the number of elements; 0 if the dimensions are invalid.
func (t *Tensor) Elements() int64 {
	n, _ := elements(t.Dims)
	return n
}

// Size returns the number of bytes of the elements in raw_data, for strings of
// their contents; 0 if the type or the dimensions are invalid.
func (t *Tensor) Size() int64 {
	n, ok := elements(t.Dims)
	if !ok || !t.DType.Known() {
		return 0
	}
	if t.DType == STRING {
		total := int64(0)
		for _, s := range t.Strings {
			total += int64(len(s))
		}
		return total
	}
	size, _ := t.DType.rawSize(n)
	return size
}

// Bytes returns the elements in the format of raw_data, little endian, from any
// field; the result aliases the file if they are in raw_data. It returns an
// error if they are strings or external, or if their number does not match the
// dimensions.
func (t *Tensor) Bytes() ([]byte, error) {
	if err := t.sound(); err != nil {
		return nil, fmt.Errorf("onnx: tensor %q: %w", t.Name, err)
	}
	switch {
	case t.External != nil:
		return nil, fmt.Errorf("onnx: tensor %q: elements are external", t.Name)
	case t.DType == STRING:
		return nil, fmt.Errorf("onnx: tensor %q: elements are strings", t.Name)
	case t.Raw != nil:
		return t.Raw, nil
	}
	size, _ := t.DType.rawSize(t.Elements())
	out := make([]byte, 0, size)
	for _, chunk := range t.typed {
		out = appendTyped(out, t.DType, t.field, chunk)
	}
	return out, nil
}

// appendTyped writes the elements of a packed payload as raw_data.
func appendTyped(out []byte, d DType, field int, chunk []byte) []byte {
	if field == floatData || field == doubleData {
		return append(out, chunk...)
	}
	width := max(dtypes[d].bits/8, 1)
	var b [8]byte
	for len(chunk) > 0 {
		v, n := binary.Uvarint(chunk)
		chunk = chunk[n:]
		binary.LittleEndian.PutUint64(b[:], v)
		out = append(out, b[:width]...)
	}
	return out
}

// unsound describes why a tensor is invalid.
type unsound struct {
	rule Rule
	text string
}

func (u *unsound) Error() string { return u.text }

func unsoundf(rule Rule, format string, args ...any) *unsound {
	return &unsound{rule, fmt.Sprintf(format, args...)}
}

// sound checks that dtype and dimensions are valid and that the number of
// elements matches the dimensions; it returns nil for a valid tensor.
func (t *Tensor) sound() *unsound {
	if !t.DType.Known() {
		return unsoundf(RuleDType, "unknown dtype %d", int32(t.DType))
	}
	n, ok := elements(t.Dims)
	if !ok {
		return unsoundf(RuleDims, "dimensions %v are negative or their product exceeds 2^63", t.Dims)
	}
	want, ok := t.DType.rawSize(n)
	if !ok {
		return unsoundf(RuleDims, "dimensions %v of %s need more than 2^63 bytes", t.Dims, t.DType)
	}
	switch {
	case t.External != nil && (t.fields > 0 || t.Raw != nil):
		return unsoundf(RuleData, "elements both in the file and external")
	case t.External != nil && t.DType == STRING:
		return unsoundf(RuleData, "strings cannot be external")
	case t.External != nil:
		return nil
	case t.fields > 1:
		return unsoundf(RuleData, "elements in more than one field")
	case t.DType == STRING:
		if t.Raw != nil || t.field != 0 || int64(len(t.Strings)) != n {
			return unsoundf(RuleData, "%d strings, dimensions %v need %d", len(t.Strings), t.Dims, n)
		}
	case len(t.Strings) > 0 || t.field != 0 && t.field != dtypes[t.DType].field:
		return unsoundf(RuleData, "elements in a field that does not hold %s", t.DType)
	case t.Raw != nil:
		if int64(len(t.Raw)) != want {
			return unsoundf(RuleData, "raw_data has %d bytes, %s %v needs %d", len(t.Raw), t.DType, t.Dims, want)
		}
	default:
		if got, want := t.typedCount(), typedWant(t.DType, n); got != want {
			return unsoundf(RuleData, "%d elements, %s %v needs %d", got, t.DType, t.Dims, want)
		}
	}
	return nil
}

// typedCount returns the number of values in the typed field.
func (t *Tensor) typedCount() int64 {
	n := int64(0)
	for _, chunk := range t.typed {
		switch t.field {
		case floatData:
			n += int64(len(chunk) / 4)
		case doubleData:
			n += int64(len(chunk) / 8)
		default:
			for _, b := range chunk {
				if b < 0x80 {
					n++
				}
			}
		}
	}
	return n
}

// typedWant returns the number of values of the typed field for n elements: two
// for a complex element, one for as many small elements as fit in a byte.
func typedWant(d DType, n int64) int64 {
	switch b := int64(dtypes[d].bits); {
	case d == COMPLEX64 || d == COMPLEX128:
		return 2 * n
	case b < 8 && b != 6:
		per := 8 / b
		return n/per + min(n%per, 1)
	}
	return n
}
