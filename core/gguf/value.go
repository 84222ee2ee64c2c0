package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// KV is a metadata entry. Value's Go type determines its GGUF type: one of the
// types of [Value]; an array of strings read from a file is a [Strings].
type KV struct {
	Key   string
	Value any
}

// Scalar lists the Go types of GGUF's single values.
type Scalar interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64 | bool | string
}

// Value lists the Go types of GGUF's values: a scalar or an array of one.
type Value interface {
	Scalar |
		[]uint8 | []int8 | []uint16 | []int16 | []uint32 | []int32 | []uint64 | []int64 |
		[]float32 | []float64 | []bool | []string
}

// GGUF's ids of value types.
const (
	idUint8 uint32 = iota
	idInt8
	idUint16
	idInt16
	idUint32
	idInt32
	idFloat32
	idBool
	idString
	idArray
	idUint64
	idInt64
	idFloat64
)

// ErrNoKey reports an absent key; Get wraps it.
var ErrNoKey = errors.New("no such key")

// Has reports whether the metadata has key.
func (f *File) Has(key string) bool {
	_, ok := f.keys[key]
	return ok
}

// Get returns the value of key. It fails if the key is absent ([ErrNoKey]) or
// has a type other than T: a u32 is not read as an i32.
func Get[T Value](f *File, key string) (T, error) {
	var zero T
	i, ok := f.keys[key]
	if !ok {
		return zero, fmt.Errorf("gguf: %w: %s", ErrNoKey, key)
	}
	value := f.KVs[i].Value
	if s, lazy := value.(Strings); lazy {
		if _, wanted := any(zero).([]string); wanted {
			value = s.Slice()
		}
	}
	v, ok := value.(T)
	if !ok {
		return zero, fmt.Errorf("gguf: key %s: got type %s, want %s", key, TypeName(f.KVs[i].Value), TypeName(zero))
	}
	return v, nil
}

// GetOr is Get with a default for an absent key. A wrong type remains an error.
func GetOr[T Value](f *File, key string, absent T) (T, error) {
	if !f.Has(key) {
		return absent, nil
	}
	return Get[T](f, key)
}

// PerLayer reads a count that is either one number for all n layers or an array
// with a number for each layer, of u32 or nonnegative i32 (such as
// llama.attention.head_count_kv).
func (f *File) PerLayer(key string, n int) ([]uint32, error) {
	i, ok := f.keys[key]
	if !ok {
		return nil, fmt.Errorf("gguf: %w: %s", ErrNoKey, key)
	}
	var per []uint32
	switch v := f.KVs[i].Value.(type) {
	case uint32:
		per = make([]uint32, n)
		for i := range per {
			per[i] = v
		}
	case []uint32:
		per = v
	case []int32:
		for layer, x := range v {
			if x < 0 {
				return nil, fmt.Errorf("gguf: key %s: bad count %d in layer %d", key, x, layer)
			}
			per = append(per, uint32(x))
		}
	default:
		return nil, fmt.Errorf("gguf: key %s: got type %s, want u32 or an array of it", key, TypeName(v))
	}
	if len(per) != n {
		return nil, fmt.Errorf("gguf: key %s: got %d entries, want %d", key, len(per), n)
	}
	return per, nil
}

// TypeName returns the GGUF type of a metadata value, such as "u32" or
// "arr[str]".
func TypeName(v any) string {
	id, array := idOf(v)
	switch {
	case id == idArray:
		return fmt.Sprintf("%T", v)
	case array:
		return "arr[" + idName(id) + "]"
	}
	return idName(id)
}

func idName(id uint32) string {
	names := [...]string{"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "arr", "u64", "i64", "f64"}
	if int(id) < len(names) {
		return names[id]
	}
	return fmt.Sprintf("type %d", id)
}

// idOf returns the type id of a scalar, or of an array's elements. For a Go
// type without a GGUF type it returns idArray.
func idOf(v any) (id uint32, array bool) {
	switch v.(type) {
	case uint8:
		return idUint8, false
	case int8:
		return idInt8, false
	case uint16:
		return idUint16, false
	case int16:
		return idInt16, false
	case uint32:
		return idUint32, false
	case int32:
		return idInt32, false
	case uint64:
		return idUint64, false
	case int64:
		return idInt64, false
	case float32:
		return idFloat32, false
	case float64:
		return idFloat64, false
	case bool:
		return idBool, false
	case string:
		return idString, false
	case []uint8:
		return idUint8, true
	case []int8:
		return idInt8, true
	case []uint16:
		return idUint16, true
	case []int16:
		return idInt16, true
	case []uint32:
		return idUint32, true
	case []int32:
		return idInt32, true
	case []uint64:
		return idUint64, true
	case []int64:
		return idInt64, true
	case []float32:
		return idFloat32, true
	case []float64:
		return idFloat64, true
	case []bool:
		return idBool, true
	case []string, Strings:
		return idString, true
	}
	return idArray, false
}

// width returns the number of bytes of a fixed-size value; 0 for strings,
// arrays and unknown types.
func width(id uint32) uint64 {
	switch id {
	case idUint8, idInt8, idBool:
		return 1
	case idUint16, idInt16:
		return 2
	case idUint32, idInt32, idFloat32:
		return 4
	case idUint64, idInt64, idFloat64:
		return 8
	}
	return 0
}

// value reads one value of type id.
func (c *cursor) value(id uint32) (any, error) {
	switch {
	case id == idString:
		return c.str("its value", maxStringBytes)
	case id == idArray:
		return c.array()
	case width(id) == 0:
		return nil, fmt.Errorf("unknown value type %d", id)
	}
	b, err := c.take(width(id), "its value")
	if err != nil {
		return nil, err
	}
	return scalar(id, b)
}

// scalar decodes the fixed-size value of type id in b.
func scalar(id uint32, b []byte) (any, error) {
	le := binary.LittleEndian
	switch id {
	case idUint8:
		return b[0], nil
	case idInt8:
		return int8(b[0]), nil
	case idUint16:
		return le.Uint16(b), nil
	case idInt16:
		return int16(le.Uint16(b)), nil
	case idUint32:
		return le.Uint32(b), nil
	case idInt32:
		return int32(le.Uint32(b)), nil
	case idFloat32:
		return math.Float32frombits(le.Uint32(b)), nil
	case idUint64:
		return le.Uint64(b), nil
	case idInt64:
		return int64(le.Uint64(b)), nil
	case idFloat64:
		return math.Float64frombits(le.Uint64(b)), nil
	}
	if b[0] > 1 {
		return nil, fmt.Errorf("bad bool: got %d, want 0 or 1", b[0])
	}
	return b[0] == 1, nil
}

// array reads an array: element type, count, elements. Elements are read in
// bulk: a vocabulary of 256k tokens takes one pass over its bytes.
func (c *cursor) array() (any, error) {
	id, err := c.u32("the element type")
	if err != nil {
		return nil, err
	}
	n, err := c.u64("the element count")
	if err != nil {
		return nil, err
	}
	if n > maxElements {
		return nil, fmt.Errorf("array too long: got %d elements, limit %d", n, maxElements)
	}
	switch {
	case id == idArray:
		return nil, errors.New("unsupported array of arrays")
	case id == idString:
		return c.strings(n)
	case width(id) == 0:
		return nil, fmt.Errorf("unknown element type %d", id)
	}
	b, err := c.take(n*width(id), fmt.Sprintf("an array of %d %s", n, idName(id)))
	if err != nil {
		return nil, err
	}
	return elements(id, b, int(n))
}

// elements decodes n fixed-size values of type id.
func elements(id uint32, b []byte, n int) (any, error) {
	le := binary.LittleEndian
	switch id {
	case idUint8:
		return append(make([]uint8, 0, n), b...), nil
	case idInt8:
		return decode(n, func(i int) int8 { return int8(b[i]) }), nil
	case idUint16:
		return decode(n, func(i int) uint16 { return le.Uint16(b[2*i:]) }), nil
	case idInt16:
		return decode(n, func(i int) int16 { return int16(le.Uint16(b[2*i:])) }), nil
	case idUint32:
		return decode(n, func(i int) uint32 { return le.Uint32(b[4*i:]) }), nil
	case idInt32:
		return decode(n, func(i int) int32 { return int32(le.Uint32(b[4*i:])) }), nil
	case idFloat32:
		return decode(n, func(i int) float32 { return math.Float32frombits(le.Uint32(b[4*i:])) }), nil
	case idUint64:
		return decode(n, func(i int) uint64 { return le.Uint64(b[8*i:]) }), nil
	case idInt64:
		return decode(n, func(i int) int64 { return int64(le.Uint64(b[8*i:])) }), nil
	case idFloat64:
		return decode(n, func(i int) float64 { return math.Float64frombits(le.Uint64(b[8*i:])) }), nil
	}
	for i, x := range b {
		if x > 1 {
			return nil, fmt.Errorf("bad bool %d of an array: got %d, want 0 or 1", i, x)
		}
	}
	return decode(n, func(i int) bool { return b[i] == 1 }), nil
}

func decode[T any](n int, at func(int) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = at(i)
	}
	return out
}
