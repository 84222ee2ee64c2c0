package quant

import (
	"encoding/binary"
	"math"
)

// The types with blocks of 32 elements.

// encodeQ8_0: d = max|x| / 127; q is rounded half away from zero, as by C's
// roundf.
func encodeQ8_0(b []byte, x []float32) {
	d := abs(peak(x)) / 127
	inv := inverse(d)
	putHalf(b, d)
	for i, v := range x {
		b[2+i] = byte(int8(math.Round(float64(v * inv))))
	}
}

func decodeQ8_0(b []byte, x []float32) {
	d := half(b)
	for i := range x {
		x[i] = d * float32(int8(b[2+i]))
	}
}

// encodeQ4_0: the element of largest magnitude becomes exactly -8, so that
// the one value that has no positive counterpart is used. The conversion keeps
// the product from being fused into the sum, which rounds differently.
func encodeQ4_0(b []byte, x []float32) {
	d := peak(x) / -8
	inv := inverse(d)
	putHalf(b, d)
	for i := range 16 {
		lo := min(15, int(int8(float32(x[i]*inv)+8.5)))
		hi := min(15, int(int8(float32(x[i+16]*inv)+8.5)))
		b[2+i] = byte(lo) | byte(hi)<<4
	}
}

func decodeQ4_0(b []byte, x []float32) {
	d := half(b)
	for i, q := range b[2:18] {
		x[i] = d * float32(int(q&15)-8)
		x[i+16] = d * float32(int(q>>4)-8)
	}
}

func decodeQ4_1(b []byte, x []float32) {
	d, m := half(b), half(b[2:])
	for i, q := range b[4:20] {
		x[i] = float32(d*float32(q&15)) + m
		x[i+16] = float32(d*float32(q>>4)) + m
	}
}

func decodeQ5_0(b []byte, x []float32) {
	d, high := half(b), binary.LittleEndian.Uint32(b[2:])
	for i, q := range b[6:22] {
		x[i] = d * float32(int(q&15)+int(high>>i&1)<<4-16)
		x[i+16] = d * float32(int(q>>4)+int(high>>(i+16)&1)<<4-16)
	}
}

func decodeQ5_1(b []byte, x []float32) {
	d, m, high := half(b), half(b[2:]), binary.LittleEndian.Uint32(b[4:])
	for i, q := range b[8:24] {
		x[i] = float32(d*float32(int(q&15)+int(high>>i&1)<<4)) + m
		x[i+16] = float32(d*float32(int(q>>4)+int(high>>(i+16)&1)<<4)) + m
	}
}
