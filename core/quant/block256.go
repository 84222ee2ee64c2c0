package quant

import (
	"encoding/binary"
	"math"
)

// The types with blocks of 256 elements: groups of 32 (Q4_K, Q5_K) or 16 (Q6_K)
// with integer scales.

// Offsets of the fields.
const (
	q4KScales, q4KQuants            = 4, 16
	q5KScales, q5KHigh, q5KQuants   = 4, 16, 48
	q6KLow, q6KHigh, q6KScales, q6D = 0, 128, 192, 208
	q8KQuants, q8KSums              = 4, 260
)

// ScaleMin returns the 6-bit scale and minimum of group g, 0 to 7, from the 12
// scale bytes of a Q4_K or Q5_K block. Each of the first four groups has one
// byte; the last four groups use the upper two bits of those bytes and four
// more bytes.
func ScaleMin(s []byte, g int) (scale, minimum byte) {
	if g < 4 {
		return s[g] & 63, s[g+4] & 63
	}
	return s[g+4]&15 | s[g-4]>>6<<4, s[g+4]>>4 | s[g]>>6<<4
}

// putScaleMin is the inverse of ScaleMin; s must initially be zero.
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

// Q6 returns element i, 0 to 255, of a Q6_K block: 0 to 63, biased by 32.
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

// encodeQ8_K writes one scale for 256 elements, of which the largest maps to
// -127 or 127, and the sums of groups of 16.
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

func fitQ4_K(b []byte, x, w []float32) { fitGroups(b, x, w, affine{most: 15}) }

func fitQ5_K(b []byte, x, w []float32) { fitGroups(b, x, w, affine{most: 31}) }

// fitGroups fits a scale and a minimum to each group of 32 and rounds these to
// six bits in units of the block.
func fitGroups(b []byte, x, w []float32, a affine) {
	const most = 63
	var scales, minima, matters [8]float32
	for g := range scales {
		lo, hi := g*32, g*32+32
		scales[g], minima[g] = a.fit(x[lo:hi], w[lo:hi])
		matters[g] = total(w[lo:hi])
	}
	d := putHalf(b, unit(scales[:], matters[:], most))
	dmin := putHalf(b[2:], unit(minima[:], matters[:], most))
	for g := range scales {
		lo, hi := g*32, g*32+32
		s, m := a.settle(x[lo:hi], w[lo:hi], scales[g], minima[g], d, dmin, most)
		putScaleMin(b[q4KScales:], g, byte(s), byte(m))
	}
}

func stepsK(b []byte, s *steps) {
	d, dmin := half(b), half(b[2:])
	for g := range 8 {
		scale, minimum := ScaleMin(b[q4KScales:], g)
		s.spread(g*32, g*32+32, d*float32(scale), -float32(dmin*float32(minimum)))
	}
}

func putQ4_K(b, q []byte) {
	for i, v := range q {
		b[q4KQuants+i/64*32+i%32] |= v << (i / 32 % 2 * 4)
	}
}

func putQ5_K(b, q []byte) {
	for i, v := range q {
		b[q5KQuants+i/64*32+i%32] |= v & 15 << (i / 32 % 2 * 4)
		b[q5KHigh+i%32] |= v >> 4 << (i / 32)
	}
}

// fitQ6_K fits a scale to each group of 16 and rounds these to eight bits in
// units of the block.
func fitQ6_K(b []byte, x, w []float32) {
	const scaleHalf, half = 128, 32
	var scales, matters [16]float32
	for g := range scales {
		lo, hi := g*16, g*16+16
		scales[g] = fitLinear(x[lo:hi], w[lo:hi], half)
		matters[g] = total(w[lo:hi])
	}
	d := putHalf(b[q6D:], fitLinear(scales[:], matters[:], scaleHalf))
	for g := range scales {
		lo, hi := g*16, g*16+16
		b[q6KScales+g] = byte(int8(settleLinear(x[lo:hi], w[lo:hi], scales[g], d, scaleHalf, half)))
	}
}

func stepsQ6_K(b []byte, s *steps) {
	d := half(b[q6D:])
	for g := range 16 {
		s.spread(g*16, g*16+16, d*float32(int8(b[q6KScales+g])), 0)
	}
}

func putQ6_K(b, q []byte) {
	for i, v := range q {
		half, quarter, l := i/128, i%128/32, i%32
		b[q6KLow+half*64+quarter%2*32+l] |= v & 15 << (quarter / 2 * 4)
		b[q6KHigh+half*32+l] |= v >> 4 << (2 * quarter)
	}
}

func largest(x []float32) float32 {
	var m float32
	for _, v := range x {
		m = max(m, v)
	}
	return m
}
