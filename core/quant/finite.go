package quant

import (
	"encoding/binary"
	"fmt"
	"math"

	"mm-abi.org/mm/core/tensor"
)

// Finite returns an error that names the first element of data that is NaN or
// infinite. The elements have type t; a type without Dequantize passes.
func Finite(data []byte, t tensor.Type) error {
	const elements = 1 << 13 // a multiple of every block size
	if !CanDequantize(t) {
		return nil
	}
	step := t.RowBytes(elements)
	var x []float32
	for at := 0; at < len(data); at += step {
		part := data[at:min(at+step, len(data))]
		if exponents(part, t) {
			continue
		}
		if x == nil {
			x = make([]float32, elements)
		}
		values := x[:len(part)/t.BlockBytes()*t.BlockSize()]
		Dequantize(values, part, t)
		if i := NotFinite(values); i >= 0 {
			return fmt.Errorf("element %d is %v", at/step*elements+i, values[i])
		}
	}
	return nil
}

// exponents reports whether all elements of a float type are finite, without a
// conversion. It returns false for other types.
func exponents(data []byte, t tensor.Type) bool {
	switch t {
	case tensor.F32:
		for ; len(data) >= 4; data = data[4:] {
			if binary.LittleEndian.Uint32(data)&0x7f800000 == 0x7f800000 {
				return false
			}
		}
		return true
	case tensor.F16, tensor.BF16:
		mask := uint16(0x7c00)
		if t == tensor.BF16 {
			mask = 0x7f80
		}
		for ; len(data) >= 2; data = data[2:] {
			if binary.LittleEndian.Uint16(data)&mask == mask {
				return false
			}
		}
		return true
	}
	return false
}

// NotFinite returns the index of the first element that is NaN or infinite, or
// -1.
func NotFinite(x []float32) int {
	for i, v := range x {
		if math.Float32bits(v)&0x7f800000 == 0x7f800000 {
			return i
		}
	}
	return -1
}
