package quant

import (
	"encoding/binary"
	"math"
)

// The types whose four bits select one of 16 values: IQ4_NL and IQ4_XS, whose
// values are denser around zero, and MXFP4, a float of four bits (E2M1: OCP
// Microscaling Formats 1.0, §5.3.3) times a power of two.

// TableIQ4 returns the values of the four bits of IQ4_NL and IQ4_XS, ascending.
func TableIQ4() [16]int8 { return tableIQ4 }

var tableIQ4 = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// TableMXFP4 returns the values of the four bits of MXFP4, doubled to be
// integers; the upper bit is the sign.
func TableMXFP4() [16]int8 {
	return [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
}

// ScaleMXFP4 returns the multiplier of the elements of [TableMXFP4] in a block
// with exponent e: 2^(e-128), half of the format's scale.
func ScaleMXFP4(e byte) float32 {
	if e < 2 {
		return math.Float32frombits(1 << 21 << e) // subnormal
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

// ScaleIQ4XS returns the scale of group g, 0 to 7, of an IQ4_XS block: -32 to
// 31.
func ScaleIQ4XS(b []byte, g int) int8 {
	low := b[4+g/2] >> (g % 2 * 4) & 15
	high := byte(binary.LittleEndian.Uint16(b[2:])>>(2*g)) & 3
	return int8(low|high<<4) - 32
}

// look writes 32 elements whose indices are ordered as in Q4_0.
func look(x []float32, q []byte, d float32, table [16]int8) {
	for i, v := range q[:16] {
		x[i] = d * float32(table[v&15])
		x[i+16] = d * float32(table[v>>4])
	}
}

func decodeIQ4_NL(b []byte, x []float32) { look(x, b[2:], half(b), TableIQ4()) }

func decodeIQ4_XS(b []byte, x []float32) {
	d := half(b)
	for g := range 8 {
		look(x[g*32:], b[8+g*16:], d*float32(ScaleIQ4XS(b, g)), TableIQ4())
	}
}

func decodeMXFP4(b []byte, x []float32) { look(x, b[1:], ScaleMXFP4(b[0]), TableMXFP4()) }

// nearIQ4 holds the index of the nearest value for each half-integer from -127
// on: midpoints between values are half-integers. Of two equally near values,
// the upper one is chosen.
var nearIQ4 = func() (near [2 * (127 + 113)]byte) {
	table := TableIQ4()
	i := 0
	for half := range near {
		if i < 15 && half-254 >= int(table[i])+int(table[i+1]) {
			i++
		}
		near[half] = byte(i)
	}
	return near
}()

// nearestIQ4 returns the index of the value of TableIQ4 that is nearest to v.
func nearestIQ4(v float32) byte {
	if !(v > -127) {
		return 0
	}
	if v >= 113 {
		return 15
	}
	return nearIQ4[int(2*(float64(v)+127))]
}

// fitIQ4 returns the scale of least squared error, weighted by w, among those
// that map the largest element near either end of the table and the best scales
// for the resulting indices.
func fitIQ4(x, w []float32) float32 {
	p := peak(x)
	if p == 0 || math.IsInf(float64(p), 0) {
		return 0
	}
	var best float64
	d := p / -127
	for try := -10; try <= 17; try++ {
		inv := (4*float32(try) - 127) / p
		if try < -7 {
			inv = (127 + 12*float32(try+9)) / p
		}
		for range 2 {
			var sqq, sxq float64
			for i, v := range x {
				q := float64(tableIQ4[nearestIQ4(v*inv)])
				wq := float64(float64(w[i]) * q)
				sqq += float64(wq * q)
				sxq += float64(wq * float64(v))
			}
			if !(sqq > 0) || !(sxq*sxq/sqq > best) {
				break
			}
			best, d = sxq*sxq/sqq, float32(sxq/sqq)
			inv = inverse(d)
		}
	}
	return d
}

// lossIQ4 returns Σ w·(scale·value - x)² with the nearest values.
func lossIQ4(x, w []float32, scale float32) float64 {
	inv := inverse(scale)
	var e float64
	for i, v := range x {
		d := float64(float32(scale*float32(tableIQ4[nearestIQ4(v*inv)])) - v)
		e += float64(float64(w[i]) * float64(d*d))
	}
	return e
}

func fitIQ4_NL(b []byte, x, w []float32) { putHalf(b, fitIQ4(x, w)) }

func putIQ4_NL(b, q []byte) { putNibbles(b[2:], q) }

// fitIQ4_XS fits a scale to each group of 32 and rounds these to six bits in
// units of the block.
func fitIQ4_XS(b []byte, x, w []float32) {
	const scaleHalf = 32
	var scales, matters [8]float32
	for g := range scales {
		lo, hi := g*32, g*32+32
		scales[g] = fitIQ4(x[lo:hi], w[lo:hi])
		matters[g] = total(w[lo:hi])
	}
	d := putHalf(b, fitLinear(scales[:], matters[:], scaleHalf))
	var high uint16
	for g := range scales {
		lo, hi := g*32, g*32+32
		near := nearest(scales[g]*inverse(d), -scaleHalf, scaleHalf-1)
		best, s := math.Inf(1), near
		for _, i := range [...]int{near, near - 1, near + 1} {
			if i < -scaleHalf || i >= scaleHalf {
				continue
			}
			if e := lossIQ4(x[lo:hi], w[lo:hi], d*float32(i)); e < best {
				best, s = e, i
			}
		}
		b[4+g/2] |= byte(s+scaleHalf) & 15 << (g % 2 * 4)
		high |= uint16(s+scaleHalf) >> 4 << (2 * g)
	}
	binary.LittleEndian.PutUint16(b[2:], high)
}

func stepsIQ4_XS(b []byte, s *steps) {
	d := half(b)
	for g := range 8 {
		s.spread(g*32, g*32+32, d*float32(ScaleIQ4XS(b, g)), 0)
	}
}

func putIQ4_XS(b, q []byte) {
	for g := range 8 {
		putNibbles(b[8+g*16:], q[g*32:g*32+32])
	}
}

// encodeMXFP4 sets the exponent to that of the largest magnitude minus 2, the
// largest exponent of an element, as the format's conversion prescribes (§6.3).
// Elements are rounded to the nearest, ties toward zero.
func encodeMXFP4(b []byte, x []float32) {
	most := abs(peak(x))
	b[0] = byte(max(2, math.Float32bits(most)>>23) - 2)
	inv := 1 / float64(ScaleMXFP4(b[0]))
	for i := range 16 {
		b[1+i] = nearestE2M1(float64(x[i])*inv) | nearestE2M1(float64(x[i+16])*inv)<<4
	}
}

// nearestE2M1 returns the index of the value of TableMXFP4 nearest to v.
func nearestE2M1(v float64) byte {
	var q byte
	for _, middle := range [...]float64{0.5, 1.5, 2.5, 3.5, 5, 7, 10} {
		if math.Abs(v) > middle {
			q++
		}
	}
	if q > 0 && v < 0 {
		q |= 8
	}
	return q
}
