package tensor

import "math"

// Functions and arithmetic of single elements, float32. dst has the length of
// the operands and may be one of them. NaN results in NaN. An element's result
// does not depend on its position.

// Exp sets dst = e^x; see [ExpSum] for the error.
func Exp(dst, x []float32) { elements(dst, x, expVec, exp) }

// Sigmoid sets dst = 1/(1 + e^-x), with a relative error below 2⁻²¹.
func Sigmoid(dst, x []float32) { elements(dst, x, sigmoidVec, sigmoidOf) }

// Tanh sets dst = tanh(x), with a relative error below 2⁻²¹.
func Tanh(dst, x []float32) { elements(dst, x, tanhVec, tanhOf) }

// Erf sets dst to the error function of x, with a relative error below 3·10⁻⁷.
func Erf(dst, x []float32) { elements(dst, x, erfVec, erfOf) }

// GELU sets dst = x·(1 + erf(x/√2))/2 (Hendrycks and Gimpel, arXiv
// 1606.08415), with an error below 3·10⁻⁷ of |x|.
func GELU(dst, x []float32) { elements(dst, x, geluVec, geluOf) }

// SiLU sets dst = x/(1 + e^-x).
func SiLU(dst, x []float32) { elements(dst, x, siluVec, siluOf) }

// Sqrt sets dst to the square root of x.
func Sqrt(dst, x []float32) {
	elements(dst, x, sqrtVec, func(v float32) float32 { return float32(math.Sqrt(float64(v))) })
}

// elements runs the kernel, which returns the number of elements it has done:
// none, or all but a partial vector, which is padded and passed to the kernel
// again.
func elements(dst, x []float32, kernel func(dst, x []float32) int, plain func(float32) float32) {
	if len(dst) != len(x) {
		panic(errLength)
	}
	n := kernel(dst, x)
	if n == 0 && len(x) >= 8 {
		for i, v := range x {
			dst[i] = plain(v)
		}
		return
	}
	if n == len(x) {
		return
	}
	var rest [8]float32
	k := copy(rest[:], x[n:])
	if kernel(rest[:], rest[:]) == 0 {
		for i, v := range rest[:k] {
			rest[i] = plain(v)
		}
	}
	copy(dst[n:], rest[:k])
}

// HardSigmoid sets dst = max(0, min(1, a·x + b)).
func HardSigmoid(dst, x []float32, a, b float32) {
	if len(dst) != len(x) {
		panic(errLength)
	}
	for i := hardSigmoidVec(dst, x, a, b); i < len(x); i++ {
		dst[i] = min(max(fma(a, x[i], b), 0), 1)
	}
}

// HardSwish sets dst = x·max(0, min(1, a·x + b)) (Howard et al., arXiv
// 1905.02244, with a = 1/6 and b = 1/2).
func HardSwish(dst, x []float32, a, b float32) {
	if len(dst) != len(x) {
		panic(errLength)
	}
	for i := hardSwishVec(dst, x, a, b); i < len(x); i++ {
		dst[i] = x[i] * min(max(fma(a, x[i], b), 0), 1)
	}
}

// LeakyReLU sets dst = max(x, 0) + a·min(x, 0). With a = 0 and finite x, that
// is max(x, 0).
func LeakyReLU(dst, x []float32, a float32) {
	if len(dst) != len(x) {
		panic(errLength)
	}
	for i := leakyVec(dst, x, a); i < len(x); i++ {
		dst[i] = fma(a, min(x[i], 0), max(x[i], 0))
	}
}

// Clip sets dst to x clamped to lo…hi.
func Clip(dst, x []float32, lo, hi float32) {
	if len(dst) != len(x) {
		panic(errLength)
	}
	for i := clipVec(dst, x, lo, hi); i < len(x); i++ {
		v := x[i]
		if v < lo {
			v = lo
		}
		if v > hi {
			v = hi
		}
		dst[i] = v
	}
}

// Linear sets dst = a·x + b, rounded once.
func Linear(dst, x []float32, a, b float32) {
	if len(dst) != len(x) {
		panic(errLength)
	}
	for i := linearVec(dst, x, a, b); i < len(x); i++ {
		dst[i] = fma(a, x[i], b)
	}
}

// fma returns a·x + b, rounded once like the vector kernels: the product of two
// float32 is exact in float64.
func fma(a, x, b float32) float32 { return float32(math.FMA(float64(a), float64(x), float64(b))) }

// Sum sets dst = a + b.
func Sum(dst, a, b []float32) {
	checkThree(dst, a, b)
	for i := addVec(dst, a, b); i < len(dst); i++ {
		dst[i] = a[i] + b[i]
	}
}

// Difference sets dst = a - b.
func Difference(dst, a, b []float32) {
	checkThree(dst, a, b)
	for i := subVec(dst, a, b); i < len(dst); i++ {
		dst[i] = a[i] - b[i]
	}
}

// Times sets dst = a · b.
func Times(dst, a, b []float32) {
	checkThree(dst, a, b)
	for i := mulVec(dst, a, b); i < len(dst); i++ {
		dst[i] = a[i] * b[i]
	}
}

// Quotient sets dst = a / b.
func Quotient(dst, a, b []float32) {
	checkThree(dst, a, b)
	for i := divVec(dst, a, b); i < len(dst); i++ {
		dst[i] = a[i] / b[i]
	}
}

func checkThree(dst, a, b []float32) {
	if len(a) != len(dst) || len(b) != len(dst) {
		panic(errLength)
	}
}

// SumWith sets dst = x + a.
func SumWith(dst, x []float32, a float32) {
	if len(dst) != len(x) {
		panic(errLength)
	}
	for i := addToVec(dst, x, a); i < len(dst); i++ {
		dst[i] = x[i] + a
	}
}

// DifferenceFrom sets dst = a - x.
func DifferenceFrom(dst, x []float32, a float32) {
	if len(dst) != len(x) {
		panic(errLength)
	}
	for i := subFromVec(dst, x, a); i < len(dst); i++ {
		dst[i] = a - x[i]
	}
}

// TimesBy sets dst = x · a.
func TimesBy(dst, x []float32, a float32) {
	if len(dst) != len(x) {
		panic(errLength)
	}
	for i := mulByVec(dst, x, a); i < len(dst); i++ {
		dst[i] = x[i] * a
	}
}

// QuotientBy sets dst = x / a.
func QuotientBy(dst, x []float32, a float32) {
	if len(dst) != len(x) {
		panic(errLength)
	}
	for i := divByVec(dst, x, a); i < len(dst); i++ {
		dst[i] = x[i] / a
	}
}

// QuotientOf sets dst = a / x.
func QuotientOf(dst, x []float32, a float32) {
	if len(dst) != len(x) {
		panic(errLength)
	}
	for i := divFromVec(dst, x, a); i < len(dst); i++ {
		dst[i] = a / x[i]
	}
}

// Moments returns the mean and the variance of x, both 0 if x is empty.
func Moments(x []float32) (mean, variance float32) {
	if len(x) == 0 {
		return 0, 0
	}
	s, n := sumVec(x)
	for _, v := range x[n:] {
		s += v
	}
	mean = s / float32(len(x))
	d, n := deviationVec(x, mean)
	for _, v := range x[n:] {
		d += (v - mean) * (v - mean)
	}
	return mean, d / float32(len(x))
}

// Normalize sets dst = (x - mean)·scale·gain + bias.
func Normalize(dst, x, gain, bias []float32, mean, scale float32) {
	checkThree(dst, x, gain)
	if len(bias) != len(dst) {
		panic(errLength)
	}
	for i := normaliseVec(dst, x, gain, bias, mean, scale); i < len(dst); i++ {
		dst[i] = fma((x[i]-mean)*scale, gain[i], bias[i])
	}
}

// LSTM advances the state of a long short-term memory (Hochreiter and
// Schmidhuber, 1997; with forget gates) by one step, from the sums of the
// gates: c = σ(f)·c + σ(i)·tanh(g) and h = σ(o)·tanh(c).
func LSTM(h, c, i, o, f, g []float32) {
	checkThree(h, c, i)
	checkThree(o, f, g)
	if len(h) != len(o) {
		panic(errLength)
	}
	for k := lstmVec(h, c, i, o, f, g); k < len(h); k++ {
		c[k] = fma(sigmoidOf(i[k]), tanhOf(g[k]), sigmoidOf(f[k])*c[k])
		h[k] = sigmoidOf(o[k]) * tanhOf(c[k])
	}
}

// FromBytes converts unsigned bytes to float32.
func FromBytes(dst []float32, src []uint8) {
	if len(dst) != len(src) {
		panic(errLength)
	}
	for i := fromBytesVec(dst, src); i < len(dst); i++ {
		dst[i] = float32(src[i])
	}
}

// ToBytes sets dst to the low bytes of x truncated to an integer; 0 for values
// beyond int32.
func ToBytes(dst []uint8, x []float32) {
	if len(dst) != len(x) {
		panic(errLength)
	}
	for i := toBytesVec(dst, x); i < len(dst); i++ {
		if v := x[i]; v > -1<<31 && v < 1<<31 {
			dst[i] = uint8(int32(v))
		} else {
			dst[i] = 0
		}
	}
}

func sigmoidOf(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

func tanhOf(x float32) float32 { return float32(math.Tanh(float64(x))) }

func erfOf(x float32) float32 { return float32(math.Erf(float64(x))) }

func geluOf(x float32) float32 {
	return float32(0.5 * float64(x) * (1 + math.Erf(float64(x)/math.Sqrt2)))
}

func siluOf(x float32) float32 { return float32(float64(x) / (1 + math.Exp(-float64(x)))) }
