// Package quant encodes rows of float32 weights in GGML's storage types and
// decodes them. A row of n elements of type t is t.RowBytes(n) bytes of
// consecutive blocks; a block holds its scale and its small integers. The
// layouts are those of ggml/src/ggml-common.h:
//
//	Q8_0         32 elements  f16 d, i8 q[32]                    d·q
//	Q4_0         32           f16 d, u4 q[32]                    d·(q-8)
//	Q4_1         32           f16 d, f16 m, u4 q[32]             d·q + m
//	Q5_0, Q5_1   32           as Q4_, with bit 4 of q in a u32   d·(q-16), d·q + m
//	IQ4_NL       32           f16 d, u4 q[32]                    d·table[q]
//	MXFP4        32           u8 e, u4 q[32]                     2^(e-128)·table[q]
//	Q2_K         256          16 × (u4 s, u4 m), f16 d, f16 dmin d·s·q - dmin·m
//	Q3_K         256          u3 q[256], 16 × i6 s, f16 d        d·s·(q-4)
//	Q4_K, Q5_K   256          f16 d, f16 dmin, 8 × (u6 s, u6 m)  d·s·q - dmin·m
//	Q6_K         256          u6 q[256], 16 × i8 s, f16 d        d·s·(q-32)
//	IQ4_XS       256          f16 d, 8 × i6 s, u4 q[256]         d·s·table[q]
//
// [Dequantize] reads all of them, [Quantize] writes them. A [Recipe] selects
// the type of each tensor of a model. Package core/quant/panel multiplies
// quantized matrices.
package quant

import (
	"encoding/binary"
	"math"

	"mm-abi.org/mm/core/tensor"
)

const errShape = "quant: bytes do not match the number of elements"

// codec encodes and decodes one block of a type.
type codec struct {
	encode func(block []byte, elems []float32)
	decode func(block []byte, elems []float32)
}

// codecOf returns the codec of a block type; empty if there is none.
func codecOf(t tensor.Type) codec {
	switch t {
	case tensor.Q8_0:
		return codec{encodeQ8_0, decodeQ8_0}
	case tensor.Q4_0:
		return codec{encodeQ4_0, decodeQ4_0}
	case tensor.Q4_1:
		return codec{encodeQ4_1, decodeQ4_1}
	case tensor.Q5_0:
		return codec{encodeQ5_0, decodeQ5_0}
	case tensor.Q5_1:
		return codec{encodeQ5_1, decodeQ5_1}
	case tensor.IQ4_NL:
		return codec{fitted(t), decodeIQ4_NL}
	case tensor.IQ4_XS:
		return codec{fitted(t), decodeIQ4_XS}
	case tensor.MXFP4:
		return codec{encodeMXFP4, decodeMXFP4}
	case tensor.Q2_K:
		return codec{fitted(t), decodeQ2_K}
	case tensor.Q3_K:
		return codec{fitted(t), decodeQ3_K}
	case tensor.Q4_K:
		return codec{fitted(t), decodeQ4_K}
	case tensor.Q5_K:
		return codec{fitted(t), decodeQ5_K}
	case tensor.Q6_K:
		return codec{fitted(t), decodeQ6_K}
	case tensor.Q8_K:
		return codec{encodeQ8_K, decodeQ8_K}
	}
	return codec{}
}

// fitted returns the encoder of a type whose scales are fitted.
func fitted(t tensor.Type) func(block []byte, elems []float32) {
	g, _ := gridOf(t)
	return g.plain
}

func isFloat(t tensor.Type) bool {
	return t == tensor.F32 || t == tensor.F16 || t == tensor.BF16
}

// CanQuantize reports whether Quantize supports t.
func CanQuantize(t tensor.Type) bool { return isFloat(t) || codecOf(t).encode != nil }

// CanDequantize reports whether Dequantize supports t.
func CanDequantize(t tensor.Type) bool { return isFloat(t) || codecOf(t).decode != nil }

// Quantize writes src as type t to dst, which must be t.RowBytes(len(src))
// bytes; len(src) must be a multiple of t's block size, and t must satisfy
// CanQuantize. For the types of blocks of 32 except IQ4_NL, the output equals
// that of ggml's reference functions. Blocks are independent, so rows may be
// quantized in parallel.
func Quantize(dst []byte, src []float32, t tensor.Type) {
	if len(dst) != t.RowBytes(len(src)) {
		panic(errShape)
	}
	switch t {
	case tensor.F32:
		for i, f := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
		}
	case tensor.F16:
		tensor.ToF16(dst, src)
	case tensor.BF16:
		tensor.ToBF16(dst, src)
	default:
		c := codecOf(t)
		if c.encode == nil {
			panic("quant: type cannot be quantized to")
		}
		eachBlock(dst, src, t, c.encode)
	}
}

// Dequantize writes the elements of src, of type t, to dst. src must be
// t.RowBytes(len(dst)) bytes, and t must satisfy CanDequantize. Every byte
// pattern has a value, which is finite if the scale is.
func Dequantize(dst []float32, src []byte, t tensor.Type) {
	if len(src) != t.RowBytes(len(dst)) {
		panic(errShape)
	}
	switch t {
	case tensor.F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case tensor.F16:
		tensor.FromF16(dst, src)
	case tensor.BF16:
		tensor.FromBF16(dst, src)
	default:
		c := codecOf(t)
		if c.decode == nil {
			panic("quant: type cannot be dequantized")
		}
		eachBlock(src, dst, t, c.decode)
	}
}

// eachBlock calls f for each block of a row and its elements.
func eachBlock(blocks []byte, elems []float32, t tensor.Type, f func(block []byte, elems []float32)) {
	size, n := t.BlockBytes(), t.BlockSize()
	for i := 0; i*n < len(elems); i++ {
		f(blocks[i*size:(i+1)*size], elems[i*n:(i+1)*n])
	}
}

// half reads the f16 at b.
func half(b []byte) float32 { return tensor.F16ToF32(binary.LittleEndian.Uint16(b)) }

// putHalf writes v as f16 and returns the stored value.
func putHalf(b []byte, v float32) float32 {
	h := tensor.F32ToF16(v)
	binary.LittleEndian.PutUint16(b, h)
	return tensor.F16ToF32(h)
}

// inverse returns 1/v, and 0 for 0.
func inverse(v float32) float32 {
	if v == 0 {
		return 0
	}
	return 1 / v
}

// peak returns the first element of largest magnitude.
func peak(x []float32) float32 {
	var p, most float32
	for _, v := range x {
		if a := abs(v); a > most {
			most, p = a, v
		}
	}
	return p
}

func abs(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }

// nearest rounds to the nearest integer in [lo, hi], ties to even; NaN becomes
// lo.
func nearest(v float32, lo, hi int) int {
	if !(v > float32(lo)) {
		return lo
	}
	if v >= float32(hi) {
		return hi
	}
	return int(math.RoundToEven(float64(v)))
}
