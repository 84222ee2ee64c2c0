package htp

import (
	"fmt"
)

// Encoding maps a tensor's integers to numbers.
type Encoding uint32

// The supported encodings, numbered as in QNN. Other encodings keep their
// number, and their scales are not read.
const (
	ScaleOffset Encoding = 0
	PerAxis     Encoding = 1
	Bits        Encoding = 2 // scale and offset of fewer bits than the element has
	PerAxisBits Encoding = 3
	Unquantized Encoding = 0x7fffffff
)

// String returns the encoding's name.
func (e Encoding) String() string {
	switch e {
	case ScaleOffset:
		return "scale-offset"
	case PerAxis:
		return "axis"
	case Bits:
		return "bits"
	case PerAxisBits:
		return "axis-bits"
	case Unquantized:
		return "none"
	}
	return fmt.Sprintf("encoding %d", uint32(e))
}

// Quantization maps a tensor's integers to numbers: (q + offset) · scale.
type Quantization struct {
	Encoding Encoding
	Axis     int32
	Bits     uint32    // significant bits of an element; 0 for all
	Scales   []float32 // one, or one for each index along the axis
	Offsets  []int32   // one for each scale; empty with PerAxisBits: all are 0
}

// defined marks parameters that the model sets.
const defined = 1

// Fields of a tensor's quantization.
const (
	tensorDefined  = 4
	tensorEncoding = 13
	tensorForm     = 14 // which table field 15 is: the encoding plus 1
	tensorScales   = 15
)

// quantization reads a tensor's quantization.
func quantization(b *buffer, t table) Quantization {
	q := Quantization{Encoding: Unquantized}
	if t.Uint32(tensorDefined, uint32(Unquantized)) != defined {
		return q
	}
	q.Encoding = Encoding(t.Uint32(tensorEncoding, uint32(Unquantized)))
	if q.Encoding > PerAxisBits {
		return q
	}
	p := t.Table(tensorScales)
	if form := t.Uint8(tensorForm, 0); uint32(form) != uint32(q.Encoding)+1 || !p.Valid() {
		b.Fail(fmt.Errorf("%w: quantization %s with a table of form %d", ErrMalformed, q.Encoding, form))
		return q
	}
	count := uint32(1)
	switch q.Encoding {
	case ScaleOffset:
		q.Scales, q.Offsets = []float32{p.Float32(0)}, []int32{p.Int32(1)}
	case Bits:
		q.Bits, q.Scales, q.Offsets = p.Uint32(0, 0), []float32{p.Float32(1)}, []int32{p.Int32(2)}
	case PerAxis:
		q.Axis, count = p.Int32(0), p.Uint32(1, 0)
		for _, e := range p.Tables(2) {
			q.Scales, q.Offsets = append(q.Scales, e.Float32(0)), append(q.Offsets, e.Int32(1))
		}
	case PerAxisBits:
		q.Axis, q.Bits, count, q.Scales = p.Int32(0), p.Uint32(1, 0), p.Uint32(2, 0), p.Floats(3)
		for _, v := range p.Uint32s(4) {
			q.Offsets = append(q.Offsets, int32(v))
		}
	}
	if len(q.Scales) != int(count) || len(q.Offsets) != int(count) && len(q.Offsets) != 0 {
		b.Fail(fmt.Errorf("%w: got %d scales and %d offsets, want %d", ErrMalformed, len(q.Scales), len(q.Offsets), count))
	}
	return q
}
