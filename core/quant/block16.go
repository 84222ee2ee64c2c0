package quant

// The types with blocks of 256 elements and a scale of few bits for each group
// of 16: Q2_K and Q3_K.

// Offsets of the fields.
const (
	q2KScales, q2KQuants, q2KD, q2KDmin   = 0, 16, 80, 82
	q3KHigh, q3KQuants, q3KScales, q3KD   = 0, 32, 96, 108
	q2KMost, q3KHalf                      = 3, 4
	q2KScaleMost, q3KScaleHalf, groupSize = 15, 32, 16
)

// pairOf returns the position of the lower two bits of element i of a block:
// 128 elements share 32 bytes, and a byte holds one element of each 32.
func pairOf(i int) (at, shift int) { return i/128*32 + i%32, i % 128 / 32 * 2 }

// ScaleQ3K returns the scale of group g, 0 to 15, from the 12 scale bytes of a
// Q3_K block: -32 to 31. The lower halves of the 16 scales share 8 bytes; the
// last four bytes hold the upper two bits.
func ScaleQ3K(s []byte, g int) int8 {
	low := s[g%8] >> (g / 8 * 4) & 15
	return int8(low|s[8+g%4]>>(g/4*2)&3<<4) - q3KScaleHalf
}

// putScaleQ3K is the inverse of ScaleQ3K; s must initially be zero.
func putScaleQ3K(s []byte, g int, scale int) {
	v := byte(scale + q3KScaleHalf)
	s[g%8] |= v & 15 << (g / 8 * 4)
	s[8+g%4] |= v >> 4 << (g / 4 * 2)
}

func decodeQ2_K(b []byte, x []float32) {
	d, dmin := half(b[q2KD:]), half(b[q2KDmin:])
	for i := range x {
		s := b[q2KScales+i/groupSize]
		at, shift := pairOf(i)
		scale, minimum := d*float32(s&15), float32(dmin*float32(s>>4))
		x[i] = float32(scale*float32(b[q2KQuants+at]>>shift&3)) - minimum
	}
}

func decodeQ3_K(b []byte, x []float32) {
	d := half(b[q3KD:])
	for i := range x {
		at, shift := pairOf(i)
		q := b[q3KQuants+at]>>shift&3 | b[q3KHigh+i%32]>>(i/32)&1<<2
		x[i] = d * float32(ScaleQ3K(b[q3KScales:], i/groupSize)) * float32(int(q)-q3KHalf)
	}
}

// fitQ2_K fits a scale and a minimum to each group of 16 and rounds these to
// four bits in units of the block.
func fitQ2_K(b []byte, x, w []float32) {
	a := affine{most: q2KMost}
	var scales, minima, matters [16]float32
	for g := range scales {
		lo, hi := g*groupSize, (g+1)*groupSize
		scales[g], minima[g] = a.fit(x[lo:hi], w[lo:hi])
		matters[g] = total(w[lo:hi])
	}
	d := putHalf(b[q2KD:], unit(scales[:], matters[:], q2KScaleMost))
	dmin := putHalf(b[q2KDmin:], unit(minima[:], matters[:], q2KScaleMost))
	for g := range scales {
		lo, hi := g*groupSize, (g+1)*groupSize
		s, m := a.settle(x[lo:hi], w[lo:hi], scales[g], minima[g], d, dmin, q2KScaleMost)
		b[q2KScales+g] = byte(s) | byte(m)<<4
	}
}

func stepsQ2_K(b []byte, s *steps) {
	d, dmin := half(b[q2KD:]), half(b[q2KDmin:])
	for g := range 16 {
		v := b[q2KScales+g]
		s.spread(g*groupSize, (g+1)*groupSize, d*float32(v&15), -float32(dmin*float32(v>>4)))
	}
}

func putQ2_K(b, q []byte) {
	for i, v := range q {
		at, shift := pairOf(i)
		b[q2KQuants+at] |= v << shift
	}
}

// fitQ3_K fits a scale to each group of 16 and rounds these to six bits in
// units of the block.
func fitQ3_K(b []byte, x, w []float32) {
	var scales, matters [16]float32
	for g := range scales {
		lo, hi := g*groupSize, (g+1)*groupSize
		scales[g] = fitLinear(x[lo:hi], w[lo:hi], q3KHalf)
		matters[g] = total(w[lo:hi])
	}
	d := putHalf(b[q3KD:], fitLinear(scales[:], matters[:], q3KScaleHalf))
	for g := range scales {
		lo, hi := g*groupSize, (g+1)*groupSize
		putScaleQ3K(b[q3KScales:], g, settleLinear(x[lo:hi], w[lo:hi], scales[g], d, q3KScaleHalf, q3KHalf))
	}
}

func stepsQ3_K(b []byte, s *steps) {
	d := half(b[q3KD:])
	for g := range 16 {
		s.spread(g*groupSize, (g+1)*groupSize, d*float32(ScaleQ3K(b[q3KScales:], g)), 0)
	}
}

func putQ3_K(b, q []byte) {
	for i, v := range q {
		at, shift := pairOf(i)
		b[q3KQuants+at] |= v & 3 << shift
		b[q3KHigh+i%32] |= v >> 2 << (i / 32)
	}
}
