package preprocess

import (
	"encoding/binary"
	"math"
)

// writer writes numbers to a tensor's bytes.
type writer struct {
	dtype string
	data  []byte
}

func newWriter(dtype string, n int) *writer {
	size := map[string]int{"fp32": 4, "fp16": 2, "int16": 2, "uint8": 1}[dtype]
	return &writer{dtype, make([]byte, n*size)}
}

// put writes element i; integers are rounded and clamped to their range.
func (w *writer) put(i int, v float32) {
	switch w.dtype {
	case "fp16":
		binary.LittleEndian.PutUint16(w.data[2*i:], Half(v))
	case "int16":
		binary.LittleEndian.PutUint16(w.data[2*i:], uint16(int16(min(max(math.RoundToEven(float64(v)), math.MinInt16), math.MaxInt16))))
	case "uint8":
		w.data[i] = uint8(min(max(math.RoundToEven(float64(v)), 0), math.MaxUint8))
	default:
		binary.LittleEndian.PutUint32(w.data[4*i:], math.Float32bits(v))
	}
}

// Half converts v to an IEEE 754 binary16, rounding to nearest even.
func Half(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	switch abs := math.Abs(float64(v)); {
	case v != v:
		return sign | 0x7e00
	case abs >= 65520: // half a step above the largest
		return sign | 0x7c00
	case abs < 0x1p-14: // subnormal: steps of 2⁻²⁴
		return sign | uint16(math.RoundToEven(abs*0x1p24))
	default:
		bits &= 0x7fffffff
		return sign | uint16((bits+0xfff+(bits>>13&1))>>13-112<<10)
	}
}
