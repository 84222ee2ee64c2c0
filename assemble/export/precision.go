package export

import (
	"encoding/binary"
	"math"

	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// Float32s encodes numbers as 32-bit floats.
func Float32s(x []float32) []byte {
	out := make([]byte, 0, 4*len(x))
	for _, v := range x {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

// Float16s encodes numbers as 16-bit floats; ok is false if a finite number becomes
// infinite.
func Float16s(x []float32) (out []byte, ok bool) {
	out = make([]byte, 2*len(x))
	quant.Quantize(out, x, tensor.F16)
	ok = true
	for i, v := range x {
		infinite := binary.LittleEndian.Uint16(out[2*i:])&0x7fff == 0x7c00
		ok = ok && (!infinite || math.IsInf(float64(v), 0))
	}
	return out, ok
}

// Int8s quantizes numbers symmetrically, with a scale for each index along an axis
// of the shape.
func Int8s(x []float32, shape []int, axis int) (out []byte, scales []float32) {
	inner := 1
	for _, d := range shape[axis+1:] {
		inner *= d
	}
	n := shape[axis]
	scales = make([]float32, n)
	for i, v := range x {
		c := i / inner % n
		scales[c] = max(scales[c], float32(math.Abs(float64(v))))
	}
	for c := range scales {
		if scales[c] /= 127; scales[c] == 0 {
			scales[c] = 1
		}
	}
	out = make([]byte, len(x))
	for i, v := range x {
		q := math.RoundToEven(float64(v) / float64(scales[i/inner%n]))
		out[i] = byte(int8(max(-127, min(127, q))))
	}
	return out, scales
}

// half returns the number of a 16-bit float.
func half(bits uint16) float32 {
	var out [1]float32
	quant.Dequantize(out[:], []byte{byte(bits), byte(bits >> 8)}, tensor.F16)
	return out[0]
}
