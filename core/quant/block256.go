package quant

import (
	"encoding/binary"
	"math"
)

// The types with blocks of 256 elements: groups of 32 (Q4_K, Q5_K) or 16
// (Q6_K) whose scales are integers themselves.

// Offsets of the fields.
const (
	q4KScales, q4KQuants            = 4, 16
	q5KScales, q5KHigh, q5KQuants   = 4, 16, 48
	q6KLow, q6KHigh, q6KScales, q6D = 0, 128, 192, 208
	q8KQuants, q8KSums              = 4, 260
)

// ScaleMin takes the 6-bit scale and minimum of group g, 0 to 7, from the 12
// bytes of a Q4_K or Q5_K block that hold them. The first four groups have a
// byte each; the upper two bits of those bytes, and four bytes more, are the
// last four groups'.
func ScaleMin(s []byte, g int) (scale, minimum byte) {
	if g < 4 {
		return s[g] & 63, s[g+4] & 63
	}
	return s[g+4]&15 | s[g-4]>>6<<4, s[g+4]>>4 | s[g]>>6<<4
}

// putScaleMin is the reverse of ScaleMin; s must be zero before the first.
func putScaleMin(s []byte, g int, scale, minimum byte) {
	if g < 4 {
		s[g] |= scale
		s[g+4] |= minimum
		return
	}
	s[g+4] |= scale&15 | minimum<<4
	s[g-4] |= scale >> 4 << 6
	s[g] |= minimum >> 4 << 6
}

func decodeQ4_K(b []byte, x []float32) {
	d, dmin := half(b), half(b[2:])
	for g := range 8 {
		s, m := ScaleMin(b[q4KScales:], g)
		scale, minimum := d*float32(s), dmin*float32(m)
		q, shift := b[q4KQuants+g/2*32:], g%2*4
		for i := range 32 {
			x[g*32+i] = float32(scale*float32(q[i]>>shift&15)) - minimum
		}
	}
}

func decodeQ5_K(b []byte, x []float32) {
	d, dmin := half(b), half(b[2:])
	for g := range 8 {
		s, m := ScaleMin(b[q5KScales:], g)
		scale, minimum := d*float32(s), dmin*float32(m)
		q, shift, high := b[q5KQuants+g/2*32:], g%2*4, b[q5KHigh:]
		for i := range 32 {
			x[g*32+i] = float32(scale*float32(q[i]>>shift&15|high[i]>>g&1<<4)) - minimum
		}
	}
}

// Q6 takes element i, 0 to 255, of a Q6_K block: 0 to 63, of which 32 is to be
// subtracted.
func Q6(b []byte, i int) byte {
	// 128 elements share 64 bytes of low halves and 32 bytes of upper bits.
	half, quarter, l := i/128, i%128/32, i%32
	low := b[q6KLow+half*64+quarter%2*32+l] >> (quarter / 2 * 4) & 15
	return low | b[q6KHigh+half*32+l]>>(2*quarter)&3<<4
}

func decodeQ6_K(b []byte, x []float32) {
	d := half(b[q6D:])
	for i := range x {
		x[i] = d * float32(int8(b[q6KScales+i/16])) * float32(int(Q6(b, i))-32)
	}
}

// encodeQ8_K: one scale for 256 elements, the largest of which becomes -127
// or 127, and the sums of groups of 16.
func encodeQ8_K(b []byte, x []float32) {
	p := peak(x)
	inv := inverse(p) * -127
	binary.LittleEndian.PutUint32(b, math.Float32bits(inverse(inv)))
	for g := range 16 {
		sum := 0
		for i := range 16 {
			q := nearest(x[g*16+i]*inv, -127, 127)
			b[q8KQuants+g*16+i] = byte(int8(q))
			sum += q
		}
		binary.LittleEndian.PutUint16(b[q8KSums+2*g:], uint16(int16(sum)))
	}
}

func decodeQ8_K(b []byte, x []float32) {
	d := math.Float32frombits(binary.LittleEndian.Uint32(b))
	for i := range x {
		x[i] = d * float32(int8(b[q8KQuants+i]))
	}
}

// encodeQ4_K fits a scale and a minimum to each group of 32, rounds these to
// six bits against the block's largest, and then the elements.
func encodeQ4_K(b []byte, x []float32) {
	clear(b)
	encodeGroups(b, x, 15, func(i int, q byte) {
		b[q4KQuants+i/64*32+i%32] |= q << (i / 32 % 2 * 4)
	})
}

// encodeQ5_K does the same with five bits.
func encodeQ5_K(b []byte, x []float32) {
	clear(b)
	encodeGroups(b, x, 31, func(i int, q byte) {
		b[q5KQuants+i/64*32+i%32] |= q & 15 << (i / 32 % 2 * 4)
		b[q5KHigh+i%32] |= q >> 4 << (i / 32)
	})
}

// encodeGroups writes the scales and minima of a Q4_K or Q5_K block and puts
// each element, 0 to most.
func encodeGroups(b []byte, x []float32, most int, put func(i int, q byte)) {
	var scales, minima [8]float32
	var w [32]float32
	for g := range 8 {
		part := x[g*32 : g*32+32]
		magnitudeWeights(w[:], part)
		scales[g], minima[g] = fitAffine(part, w[:], most)
	}
	d := putHalf(b, largest(scales[:])/63)
	dmin := putHalf(b[2:], largest(minima[:])/63)
	for g := range 8 {
		s := nearest(scales[g]*inverse(d), 0, 63)
		m := nearest(minima[g]*inverse(dmin), 0, 63)
		putScaleMin(b[q4KScales:], g, byte(s), byte(m))
		inv, minimum := inverse(d*float32(s)), float32(dmin*float32(m))
		for i := g * 32; i < g*32+32; i++ {
			put(i, byte(nearest((x[i]+minimum)*inv, 0, most)))
		}
	}
}

// encodeQ6_K fits a scale to each group of 16, rounds these to eight bits
// against the one of largest magnitude, which becomes -128, and then the
// elements.
func encodeQ6_K(b []byte, x []float32) {
	clear(b)
	var scales [16]float32
	for g := range 16 {
		scales[g] = fitLinear(x[g*16:g*16+16], 32)
	}
	d := putHalf(b[q6D:], peak(scales[:])/-128)
	for g := range 16 {
		s := nearest(scales[g]*inverse(d), -128, 127)
		b[q6KScales+g] = byte(int8(s))
		inv := inverse(d * float32(s))
		for i := g * 16; i < g*16+16; i++ {
			q := byte(nearest(x[i]*inv, -32, 31) + 32)
			half, quarter, l := i/128, i%128/32, i%32
			b[q6KLow+half*64+quarter%2*32+l] |= q & 15 << (quarter / 2 * 4)
			b[q6KHigh+half*32+l] |= q >> 4 << (2 * quarter)
		}
	}
}

func largest(x []float32) float32 {
	var m float32
	for _, v := range x {
		m = max(m, v)
	}
	return m
}
