package blob

import (
	"fmt"
)

// Encoding says how a tensor's integers stand for numbers.
type Encoding uint32

// The encodings that are read, with QNN's numbers. One of any other number is
// named by it, and its scales are not read.
const (
	ScaleOffset Encoding = 0
	PerAxis     Encoding = 1
	Bits        Encoding = 2 // scale and offset of fewer bits than the element has
	PerAxisBits Encoding = 3
	Unquantised Encoding = 0x7fffffff
)

// String is the encoding's name.
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
	case Unquantised:
		return "none"
	}
	return fmt.Sprintf("encoding %d", uint32(e))
}

// Quantization says what a tensor's integers stand for: (q + offset) · scale.
type Quantization struct {
	Encoding Encoding
	Axis     int32
	Bits     uint32    // that are used of an element, 0 for all
	Scales   []float32 // one, or one for each place along the axis
	Offsets  []int32   // one for each scale, or none of PerAxisBits: all are 0
}

// defined is QNN's word for parameters that the model gives.
const defined = 1

// fields of a tensor that speak of its quantisation.
const (
	tensorDefined  = 4
	tensorEncoding = 13
	tensorForm     = 14 // which table field 15 is: the encoding plus 1
	tensorScales   = 15
)

// quantisation reads what a tensor's integers stand for.
func quantisation(b *buffer, t table) Quantization {
	q := Quantization{Encoding: Unquantised}
	if t.Uint32(tensorDefined, uint32(Unquantised)) != defined {
		return q
	}
	q.Encoding = Encoding(t.Uint32(tensorEncoding, uint32(Unquantised)))
	if q.Encoding > PerAxisBits {
		return q
	}
	p := t.Table(tensorScales)
	if form := t.Uint8(tensorForm, 0); uint32(form) != uint32(q.Encoding)+1 || !p.Valid() {
		b.Fail(fmt.Errorf("%w: quantisation by %s with a table of form %d", ErrMalformed, q.Encoding, form))
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
		b.Fail(fmt.Errorf("%w: %d scales and %d offsets, %d are declared", ErrMalformed, len(q.Scales), len(q.Offsets), count))
	}
	return q
}
