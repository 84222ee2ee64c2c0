package quant

import (
	"encoding/binary"
	"math"
)

// The types with blocks of 32 elements.

// encodeQ8_0 uses d = max|x| / 127 and rounds q half away from zero, like C's
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

// encodeQ4_0 maps the element of largest magnitude to exactly -8, so that the
// one value without a positive counterpart is used. The conversion prevents the
// product from being fused into the sum, which would round differently.
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

// encodeQ4_1 maps the smallest element to m and the largest to 15.
func encodeQ4_1(b []byte, x []float32) {
	inv, m := encodeRange(b, x, 15)
	for i := range 16 {
		b[4+i] = upward(x[i]-m, inv, 15) | upward(x[i+16]-m, inv, 15)<<4
	}
}

// encodeQ5_1 maps the smallest element to m and the largest to 31.
func encodeQ5_1(b []byte, x []float32) {
	inv, m := encodeRange(b, x, 31)
	var high uint32
	for i := range 16 {
		lo, hi := upward(x[i]-m, inv, 31), upward(x[i+16]-m, inv, 31)
		b[8+i] = lo&15 | hi<<4
		high |= uint32(lo>>4)<<i | uint32(hi>>4)<<(i+16)
	}
	binary.LittleEndian.PutUint32(b[4:], high)
}

// encodeQ5_0 maps the element of largest magnitude to -16, like encodeQ4_0.
func encodeQ5_0(b []byte, x []float32) {
	d := peak(x) / -16
	inv := inverse(d)
	putHalf(b, d)
	var high uint32
	for i := range 16 {
		lo := byte(min(31, int(int8(float32(x[i]*inv)+16.5))))
		hi := byte(min(31, int(int8(float32(x[i+16]*inv)+16.5))))
		b[6+i] = lo&15 | hi<<4
		high |= uint32(lo>>4&1)<<i | uint32(hi>>4&1)<<(i+16)
	}
	binary.LittleEndian.PutUint32(b[2:], high)
}

// encodeRange writes the scale and the minimum that map a block to 0…most, and
// returns the inverse of the scale and the minimum.
func encodeRange(b []byte, x []float32, most int) (inv, least float32) {
	least, hi := x[0], x[0]
	for _, v := range x {
		least, hi = min(least, v), max(hi, v)
	}
	d := (hi - least) / float32(most)
	putHalf(b, d)
	putHalf(b[2:], least)
	return inverse(d), least
}

// upward rounds v·inv to an integer from 0 to most, ties upward.
func upward(v, inv float32, most int) byte {
	q := float32(v*inv) + 0.5
	if !(q > 0) {
		return 0
	}
	if q >= float32(most) {
		return byte(most)
	}
	return byte(q)
}

// The scales of the types of 32 elements for elements weighted by w.

func fitQ8_0(b []byte, x, w []float32) {
	const half = 127
	p := abs(peak(x))
	if p == 0 || math.IsInf(float64(p), 0) {
		return
	}
	best, scale := math.Inf(1), p/half
	for _, f := range [...]float32{1, 0.995, 1.005} {
		if e := lossLinear(x, w, p*f/half, half+1); e < best {
			best, scale = e, p*f/half
		}
	}
	putHalf(b, scale)
}

func fitQ4_0(b []byte, x, w []float32) { putHalf(b, fitLinear(x, w, 8)) }

func fitQ5_0(b []byte, x, w []float32) { putHalf(b, fitLinear(x, w, 16)) }

func fitQ4_1(b []byte, x, w []float32) { fitRange(b, x, w, 15) }

func fitQ5_1(b []byte, x, w []float32) { fitRange(b, x, w, 31) }

func fitRange(b []byte, x, w []float32, most int) {
	scale, minimum := affine{most: most, signed: true}.fit(x, w)
	putHalf(b, scale)
	putHalf(b[2:], -minimum)
}

func stepsScale(b []byte, s *steps) { s.spread(0, 32, half(b), 0) }

func stepsRange(b []byte, s *steps) { s.spread(0, 32, half(b), half(b[2:])) }

func putQ8_0(b, q []byte) {
	for i, v := range q {
		b[2+i] = byte(int8(int(v) - 127))
	}
}

func putQ4_0(b, q []byte) { putNibbles(b[2:], q) }

func putQ4_1(b, q []byte) { putNibbles(b[4:], q) }

func putQ5_0(b, q []byte) { putFive(b[2:], q) }

func putQ5_1(b, q []byte) { putFive(b[4:], q) }

func putNibbles(b, q []byte) {
	for i := range 16 {
		b[i] = q[i]&15 | q[i+16]<<4
	}
}

// putFive writes the upper bits, then the nibbles.
func putFive(b, q []byte) {
	var high uint32
	for i, v := range q {
		high |= uint32(v>>4) << i
	}
	binary.LittleEndian.PutUint32(b, high)
	putNibbles(b[4:], q)
}
