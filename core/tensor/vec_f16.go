package tensor

import (
	"encoding/binary"
	"math"
)

// F16ToF32 returns the value of an IEEE binary16 number.
func F16ToF32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h) & 0x3ff
	switch exp {
	case 0: // zero or subnormal: frac · 2⁻²⁴
		f := float32(frac) * 0x1p-24
		return math.Float32frombits(math.Float32bits(f) | sign)
	case 0x1f: // infinity, or a NaN made quiet
		if frac != 0 {
			frac |= 0x200
		}
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// F32ToF16 rounds to the nearest binary16 number, ties to even. Values that
// exceed ±65504 by half a step or more become infinite.
func F32ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	abs := b & 0x7fffffff
	switch {
	case abs > 0x7f800000: // NaN: quiet, with the upper payload
		return sign | 0x7e00 | uint16(abs>>13&0x3ff)
	case abs >= 0x477ff000: // rounds to 2¹⁶ or more
		return sign | 0x7c00
	case abs < 0x38800000: // below 2⁻¹⁴: subnormal
		// Adding 0.5 leaves the fraction, rounded by the hardware, in the
		// lowest bits: one unit of 0.5's fraction is 2⁻²⁴.
		sum := math.Float32frombits(abs) + 0.5
		return sign | uint16(math.Float32bits(sum)-math.Float32bits(0.5))
	}
	abs += 0xfff + abs>>13&1 // round half to even
	return sign | uint16((abs-(112<<23))>>13)
}

// BF16ToF32 returns the value of a bfloat16 number.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 rounds to the nearest bfloat16 number, ties to even.
func F32ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40 // NaN, quiet
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// FromF16 converts little endian binary16 numbers: len(src) = 2·len(dst).
func FromF16(dst []float32, src []byte) {
	if len(src) != 2*len(dst) {
		panic(errLength)
	}
	fromF16(dst, src)
}

// ToF16 converts to little endian binary16 numbers: len(dst) = 2·len(src).
func ToF16(dst []byte, src []float32) {
	if len(dst) != 2*len(src) {
		panic(errLength)
	}
	toF16(dst, src)
}

// FromBF16 converts little endian bfloat16 numbers: len(src) = 2·len(dst).
func FromBF16(dst []float32, src []byte) {
	if len(src) != 2*len(dst) {
		panic(errLength)
	}
	fromBF16(dst, src)
}

// ToBF16 converts to little endian bfloat16 numbers: len(dst) = 2·len(src).
func ToBF16(dst []byte, src []float32) {
	if len(dst) != 2*len(src) {
		panic(errLength)
	}
	for i, f := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], F32ToBF16(f))
	}
}

func fromF16Plain(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = F16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

func toF16Plain(dst []byte, src []float32) {
	for i, f := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], F32ToF16(f))
	}
}

func fromBF16Plain(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}
