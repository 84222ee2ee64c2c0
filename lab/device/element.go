// Package element writes numbers as the elements of a context's tensors, and
// reads them: floats, integers, and integers that stand for numbers by a scale.
package device

import (
	"encoding/binary"
	"fmt"
	"math"

	"mm-abi.org/mm/core/htp"
	"mm-abi.org/mm/core/htp/blob"
	"mm-abi.org/mm/core/tensor"
)

// scale is how a tensor's integers become numbers: (q + offset) · scale.
func scale(t blob.Tensor) (s, offset float64, err error) {
	q := t.Quant
	if q.Encoding != blob.ScaleOffset || len(q.Scales) != 1 || len(q.Offsets) != 1 {
		return 0, 0, fmt.Errorf("%s: integers quantised by %s are not compared", t.Name, q.Encoding)
	}
	return float64(q.Scales[0]), float64(q.Offsets[0]), nil
}

// limits are the least and the greatest integer of a fixed type.
func limits(d htp.DType) (least, most float64, width int, ok bool) {
	switch d {
	case htp.UFixed8:
		return 0, 255, 1, true
	case htp.SFixed8:
		return -128, 127, 1, true
	case htp.UFixed16:
		return 0, 65535, 2, true
	case htp.SFixed16:
		return -32768, 32767, 2, true
	}
	return 0, 0, 0, false
}

// integer is a type whose elements are integers and nothing else: its width in
// bytes, and whether it has negative ones.
func integer(d htp.DType) (width int, signed, ok bool) {
	switch d {
	case htp.Int8, htp.Int16, htp.Int32, htp.Int64:
		signed = true
	case htp.Uint8, htp.Uint16, htp.Uint32, htp.Uint64, htp.Bool8:
	default:
		return 0, false, false
	}
	n, ok := d.Size(1)
	return int(n), signed, ok
}

// Integers reports whether a type's elements are integers and nothing else, of
// which no numbers are drawn.
func IsInteger(d htp.DType) bool {
	_, _, ok := integer(d)
	return ok
}

// exact is the greatest integer up to which every one is a 32-bit float.
const exact = 1 << 24

// encodeIntegers writes numbers that are integers of a type.
func encodeIntegers(t blob.Tensor, width int, signed bool, values []float32) ([]byte, error) {
	least, most := 0.0, math.Exp2(float64(8*width))-1
	if signed {
		least, most = -math.Exp2(float64(8*width-1)), math.Exp2(float64(8*width-1))-1
	}
	b := make([]byte, 0, width*len(values))
	var word [8]byte
	for i, v := range values {
		if x := float64(v); x != math.Trunc(x) || x < least || x > most || math.Abs(x) > exact {
			return nil, fmt.Errorf("%s: element %d is %g, which is not written as %s", t.Name, i, v, t.DType)
		}
		binary.LittleEndian.PutUint64(word[:], uint64(int64(v)))
		b = append(b, word[:width]...)
	}
	return b, nil
}

// decodeIntegers reads them.
func decodeIntegers(t blob.Tensor, width int, signed bool, b []byte) ([]float32, error) {
	if len(b)%width != 0 {
		return nil, fmt.Errorf("%s: %d bytes are no whole elements of %s", t.Name, len(b), t.DType)
	}
	out := make([]float32, len(b)/width)
	for i := range out {
		var word [8]byte
		copy(word[:], b[i*width:(i+1)*width])
		v := int64(binary.LittleEndian.Uint64(word[:]))
		if shift := 64 - 8*width; signed {
			v = v << shift >> shift
		}
		if v > exact || v < -exact {
			return nil, fmt.Errorf("%s: element %d is beyond what a 32-bit float holds", t.Name, i)
		}
		out[i] = float32(v)
	}
	return out, nil
}

// Encode writes numbers as a tensor's elements, little endian.
func EncodeElements(t blob.Tensor, values []float32) ([]byte, error) {
	least, most, width, fixed := limits(t.DType)
	if width, signed, ok := integer(t.DType); ok {
		return encodeIntegers(t, width, signed, values)
	}
	switch {
	case t.DType == htp.Float32:
		b := make([]byte, 0, 4*len(values))
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		return b, nil
	case t.DType == htp.Float16:
		b := make([]byte, 0, 2*len(values))
		for _, v := range values {
			b = binary.LittleEndian.AppendUint16(b, tensor.F32ToF16(v))
		}
		return b, nil
	case !fixed:
		return nil, fmt.Errorf("%s: elements of %s are not made of numbers", t.Name, t.DType)
	}
	s, offset, err := scale(t)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, width*len(values))
	for _, v := range values {
		q := int64(min(max(math.RoundToEven(float64(v)/s-offset), least), most))
		if width == 1 {
			b = append(b, byte(q))
		} else {
			b = binary.LittleEndian.AppendUint16(b, uint16(q))
		}
	}
	return b, nil
}

// Decode reads a tensor's elements as numbers.
func DecodeElements(t blob.Tensor, b []byte) ([]float32, error) {
	switch t.DType {
	case htp.Float32:
		out := make([]float32, len(b)/4)
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		return out, nil
	case htp.Float16:
		out := make([]float32, len(b)/2)
		for i := range out {
			out[i] = tensor.F16ToF32(binary.LittleEndian.Uint16(b[2*i:]))
		}
		return out, nil
	}
	if width, signed, ok := integer(t.DType); ok {
		return decodeIntegers(t, width, signed, b)
	}
	least, _, width, fixed := limits(t.DType)
	if !fixed {
		return nil, fmt.Errorf("%s: elements of %s are not read as numbers", t.Name, t.DType)
	}
	s, offset, err := scale(t)
	if err != nil {
		return nil, err
	}
	out := make([]float32, len(b)/width)
	for i := range out {
		q := int64(b[i*width])
		if width == 2 {
			q = int64(binary.LittleEndian.Uint16(b[2*i:]))
		}
		if half := int64(1) << (8*width - 1); least < 0 && q >= half {
			q -= 2 * half
		}
		out[i] = float32((float64(q) + offset) * s)
	}
	return out, nil
}
