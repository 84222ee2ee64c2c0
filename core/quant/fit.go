package quant

import "math"

// Fitting of scales by weighted least squares: round the elements with a
// trial scale, solve for the scale that serves these integers best, round
// again with it, and keep the best of several trials.
//
// Products that are added to something are converted to their own type: that
// keeps processors with a fused multiply-add from rounding otherwise, and the
// same weights from having two digests.

// trials are the factors on the plain scale, which maps the extremes of a
// group onto the ends of the integer range, that fits start from. Narrower
// scales clip the extremes in favour of everything else.
var trials = [...]float32{1, 0.97, 0.94, 0.91, 0.88, 1.04, 1.08}

// refinements is how often a trial is solved and rounded again.
const refinements = 3

// magnitudeWeights sets w[i] = rms(x) + |x[i]|: large weights matter more in
// a product than small ones.
func magnitudeWeights(w, x []float32) {
	var sum float64
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	rms := float32(math.Sqrt(sum / float64(len(x))))
	for i, v := range x {
		w[i] = rms + abs(v)
	}
}

// fitAffine finds scale and minimum, both at least 0, for which
// Σ w·(scale·q - minimum - x)² is small with integers 0 ≤ q ≤ most.
func fitAffine(x, w []float32, most int) (scale, minimum float32) {
	lo, hi := float32(0), x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	if !(hi > lo) || math.IsInf(float64(hi-lo), 0) {
		return 0, -lo
	}
	best := math.Inf(1)
	for _, f := range trials {
		s, m := (hi-lo)*f/float32(most), -lo
		for range refinements {
			e, s2, m2 := solveAffine(x, w, s, m, most)
			if e < best {
				best, scale, minimum = e, s, m
			}
			if !(s2 > 0) {
				break
			}
			s, m = s2, m2
		}
	}
	return scale, minimum
}

// solveAffine rounds x with (s, m), gives the error of that, and the scale
// and minimum that fit its integers best.
func solveAffine(x, w []float32, s, m float32, most int) (e float64, scale, minimum float32) {
	inv := 1 / s
	var sw, sq, sqq, sx, sxq float64
	for i, v := range x {
		q := float32(nearest((v+m)*inv, 0, most))
		d := float64(float32(s*q) - m - v)
		wi := float64(w[i])
		e += float64(wi * d * d)
		wq := wi * float64(q)
		sw += wi
		sq += wq
		sqq += float64(wq * float64(q))
		sx += float64(wi * float64(v))
		sxq += float64(wq * float64(v))
	}
	det := float64(sw*sqq) - float64(sq*sq)
	if det <= 0 {
		return e, 0, 0
	}
	scale = float32((float64(sw*sxq) - float64(sx*sq)) / det)
	minimum = float32((float64(sq*sxq) - float64(sqq*sx)) / det)
	if minimum < 0 { // the format has no positive offset
		scale, minimum = float32(sxq/sqq), 0
	}
	return e, scale, minimum
}

// fitLinear finds a scale, of either sign, for which Σ x²·(scale·q - x)² is
// small with integers -half ≤ q < half.
func fitLinear(x []float32, half int) float32 {
	p := peak(x)
	if p == 0 || math.IsInf(float64(p), 0) {
		return 0
	}
	best, scale := math.Inf(1), float32(0)
	for _, f := range trials {
		s := p * f / float32(-half)
		for range refinements {
			e, next := solveLinear(x, s, half)
			if e < best {
				best, scale = e, s
			}
			if next == 0 {
				break
			}
			s = next
		}
	}
	return scale
}

func solveLinear(x []float32, s float32, half int) (e float64, scale float32) {
	inv := 1 / s
	var sqq, sxq float64
	for _, v := range x {
		q := float32(nearest(v*inv, -half, half-1))
		d := float64(float32(s*q) - v)
		w := float64(v) * float64(v)
		e += float64(w * d * d)
		sqq += float64(w * float64(q) * float64(q))
		sxq += float64(w * float64(q) * float64(v))
	}
	if sqq == 0 {
		return e, 0
	}
	return e, float32(sxq / sqq)
}
