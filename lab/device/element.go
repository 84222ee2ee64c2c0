package device

import (
	"encoding/binary"
	"fmt"
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx/htp"
)

// scale returns the quantization of a tensor: value = (q + offset) · scale.
func scale(t htp.Tensor) (s, offset float64, err error) {
	q := t.Quant
	if q.Encoding != htp.ScaleOffset || len(q.Scales) != 1 || len(q.Offsets) != 1 {
		return 0, 0, fmt.Errorf("%s: unsupported quantization %s", t.Name, q.Encoding)
	}
	return float64(q.Scales[0]), float64(q.Offsets[0]), nil
}

// limits returns the minimum and maximum of a fixed-point type.
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

// integer returns the width of a plain integer type in bytes and its signedness.
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

// IsInteger reports whether a type is a plain integer type, for which inputs are not drawn.
func IsInteger(d htp.DType) bool {
	_, _, ok := integer(d)
	return ok
}

// exact is the largest integer such that all smaller ones are exact 32-bit floats.
const exact = 1 << 24

// encodeIntegers encodes integers.
func encodeIntegers(t htp.Tensor, width int, signed bool, values []float32) ([]byte, error) {
	least, most := 0.0, math.Exp2(float64(8*width))-1
	if signed {
		least, most = -math.Exp2(float64(8*width-1)), math.Exp2(float64(8*width-1))-1
	}
	b := make([]byte, 0, width*len(values))
	var word [8]byte
	for i, v := range values {
		if x := float64(v); x != math.Trunc(x) || x < least || x > most || math.Abs(x) > exact {
			return nil, fmt.Errorf("%s: element %d: cannot encode %g as %s", t.Name, i, v, t.DType)
		}
		binary.LittleEndian.PutUint64(word[:], uint64(int64(v)))
		b = append(b, word[:width]...)
	}
	return b, nil
}

// decodeIntegers decodes integers.
func decodeIntegers(t htp.Tensor, width int, signed bool, b []byte) ([]float32, error) {
	if len(b)%width != 0 {
		return nil, fmt.Errorf("%s: %d bytes is not a multiple of the size of %s", t.Name, len(b), t.DType)
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
			return nil, fmt.Errorf("%s: element %d is not an exact 32-bit float", t.Name, i)
		}
		out[i] = float32(v)
	}
	return out, nil
}

// EncodeElements encodes values as elements of a tensor, in little endian.
func EncodeElements(t htp.Tensor, values []float32) ([]byte, error) {
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
		return nil, fmt.Errorf("%s: cannot encode elements of type %s", t.Name, t.DType)
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

// DecodeElements decodes the elements of a tensor.
func DecodeElements(t htp.Tensor, b []byte) ([]float32, error) {
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
		return nil, fmt.Errorf("%s: cannot decode elements of type %s", t.Name, t.DType)
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
