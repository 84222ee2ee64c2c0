package tensor

import "math"

// Parts of π: piHigh has 33 bits, so that its multiples up to 2²⁰ are exact.
const (
	piHigh = 3.1415926534682512
	piLow  = 1.2154201013012385e-10

	maxReduced = 1e5         // beyond, the library's reduction is needed
	roundMagic = 3 << 51     // added, it rounds to an integer
	halfTurns  = 1 / math.Pi // per radian
)

// Coefficients of sin(r)/r in r², by Taylor; the remainder on [-π/2, π/2] is below
// 5e-14.
const (
	sin3  = -1. / 6
	sin5  = 1. / 120
	sin7  = -1. / 5040
	sin9  = 1. / 362880
	sin11 = -1. / 39916800
	sin13 = 1. / 6227020800
	sin15 = -1. / 1307674368000
	sin17 = 1. / 355687428096000
)

// waveConstants are the operands of the kernels, in their order.
var waveConstants = [...]float64{maxReduced, halfTurns, roundMagic, piHigh, piLow, sin17, sin15, sin13, sin11, sin9, sin7, sin5, sin3, 1}

// Sin computes the sine of each number, rounded from float64. dst may be x.
func Sin(dst, x []float32) { waves(dst, x, 0, math.Sin) }

// Cos computes the cosine, which is a sine half a half turn later. dst may be x.
func Cos(dst, x []float32) { waves(dst, x, 0.5, math.Cos) }

// waves computes sin(x + shift·π); exact is the same function for numbers that are
// large or not finite.
func waves(dst, x []float32, shift float64, exact func(float64) float64) {
	dst = dst[:len(x)]
	for len(x) > 0 {
		if n := wavesVector(dst, x, shift); n > 0 {
			dst, x = dst[n:], x[n:]
			continue
		}
		n := min(8, len(x))
		for i, v := range x[:n] {
			if f := float64(v); math.Abs(f) < maxReduced {
				dst[i] = float32(wave(f, shift))
			} else {
				dst[i] = float32(exact(f))
			}
		}
		dst, x = dst[n:], x[n:]
	}
}

// wave computes sin(f + shift·π): f is reduced by the next multiple k of π, minus
// shift, whose parity is the sign.
func wave(f, shift float64) float64 {
	turns := float64(f*halfTurns) + shift + roundMagic
	k := turns - roundMagic - shift
	r := f - float64(k*piHigh) - float64(k*piLow)
	s := float64(r * r)
	p := 1.0
	for i, c := range waveConstants[5:] {
		if i == 0 {
			p = c
		} else {
			p = float64(p*s) + c
		}
	}
	return math.Float64frombits(math.Float64bits(r)^math.Float64bits(turns)<<63) * p
}
