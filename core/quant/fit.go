package quant

import "math"

// Scales are fitted by weighted least squares: round the elements with a trial
// scale, solve for the best scale of these integers, round again with it, and
// keep the best of several trials.
//
// Products that are added are first converted to their own type, which prevents
// fused multiply-adds. Otherwise the same weights would round differently on
// processors that have them and get different digests.

// trials returns the factors on the plain scale, which maps the extremes of a
// group to the ends of a range of the given number of integers, from which fits
// start. Smaller scales clip the extremes and represent the other elements
// better. Below 0.88 they pay off for types of few integers; for the others
// they fit an importance matrix better, and models predict text worse.
func trials(integers int) []float32 {
	if integers <= 8 {
		return allTrials[:]
	}
	return allTrials[:8]
}

var allTrials = [...]float32{1, 0.97, 0.94, 0.91, 0.88, 1.04, 1.08, 1.12, 0.8, 0.7}

// refinements is the number of times that a trial is solved and rounded again.
const refinements = 3

// magnitudeWeights sets w[i] = rms(x) + |x[i]|, because large weights
// contribute more to a product. rms is that of each 32 elements.
func magnitudeWeights(w, x []float32) {
	for from := 0; from < len(x); from += 32 {
		part := x[from : from+32]
		rms := float32(math.Sqrt(float64(meanSquare(part))))
		for i, v := range part {
			w[from+i] = rms + abs(v)
		}
	}
}

// affine is an integer range 0 to most with a scale and a minimum that is
// subtracted.
type affine struct {
	most   int
	signed bool // the minimum may be negative
}

// fit returns a scale ≥ 0 and a minimum for which Σ w·(scale·q - minimum - x)²
// is small with integers 0 ≤ q ≤ most.
func (a affine) fit(x, w []float32) (scale, minimum float32) {
	lo, hi := x[0], x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	if !a.signed {
		lo = min(lo, 0)
	}
	if !(hi > lo) || math.IsInf(float64(hi-lo), 0) {
		return 0, -lo
	}
	best := math.Inf(1)
	for _, f := range trials(a.most + 1) {
		s, m := (hi-lo)*f/float32(a.most), -lo
		if a.signed && f < 1 { // clipped at both ends
			m -= (hi - lo) * (1 - f) / 2
		}
		for range refinements {
			e, s2, m2 := a.solve(x, w, s, m)
			if e < best {
				best, scale, minimum = e, s2, m2
			}
			if !(s2 > 0) || s2 == s && m2 == m {
				break
			}
			s, m = s2, m2
		}
	}
	if !(scale > 0) {
		return (hi - lo) / float32(a.most), -lo
	}
	return scale, minimum
}

// solve rounds x with (s, m) and returns the scale and minimum that fit these
// integers best, and their error minus Σ w·x².
func (a affine) solve(x, w []float32, s, m float32) (e float64, scale, minimum float32) {
	inv := 1 / s
	var sw, sq, sqq, sx, sxq float64
	for i, v := range x {
		q := float64(nearest((v+m)*inv, 0, a.most))
		wi := float64(w[i])
		wq := float64(wi * q)
		wx := float64(wi * float64(v))
		sw += wi
		sq += wq
		sqq += float64(wq * q)
		sx += wx
		sxq += float64(wx * q)
	}
	det := float64(sw*sqq) - float64(sq*sq)
	if !(det > 0) {
		return math.Inf(1), 0, 0
	}
	d := (float64(sw*sxq) - float64(sx*sq)) / det
	o := (float64(sq*sxq) - float64(sqq*sx)) / det
	if o < 0 && !a.signed { // the format has no positive offset
		d, o = sxq/sqq, 0
	}
	// Σw(dq-o-x)² - Σwx² = d²·sqq + o²·sw - 2do·sq - 2d·sxq + 2o·sx
	e = float64(d*d*sqq) + float64(o*o*sw) - float64(2*d*o*sq) - float64(2*d*sxq) + float64(2*o*sx)
	return e, float32(d), float32(o)
}

// loss returns Σ w·(scale·q - minimum - x)² with the nearest integers.
func (a affine) loss(x, w []float32, scale, minimum float32) float64 {
	inv := inverse(scale)
	var e float64
	for i, v := range x {
		q := float32(nearest((v+minimum)*inv, 0, a.most))
		d := float64(float32(scale*q) - minimum - v)
		e += float64(float64(w[i]) * float64(d*d))
	}
	return e
}

// fitLinear returns a scale, of either sign, for which Σ w·(scale·q - x)² is
// small with integers -half ≤ q < half.
func fitLinear(x, w []float32, half int) float32 {
	p := peak(x)
	if p == 0 || math.IsInf(float64(p), 0) {
		return 0
	}
	best, scale := 0.0, p/float32(-half)
	for _, f := range trials(2 * half) {
		for _, end := range [...]int{-half, half - 1} {
			s := p * f / float32(end)
			for range refinements {
				gain, next := solveLinear(x, w, s, half)
				if gain > best {
					best, scale = gain, next
				}
				if next == 0 || next == s {
					break
				}
				s = next
			}
			if half > 4 {
				break // the other end only serves a single element and shifts all others
			}
		}
	}
	return scale
}

// solveLinear rounds x with s and returns the scale that fits these integers
// best, and Σ w·x² minus its error.
func solveLinear(x, w []float32, s float32, half int) (gain float64, scale float32) {
	inv := 1 / s
	var sqq, sxq float64
	for i, v := range x {
		q := float64(nearest(v*inv, -half, half-1))
		wq := float64(float64(w[i]) * q)
		sqq += float64(wq * q)
		sxq += float64(wq * float64(v))
	}
	if !(sqq > 0) {
		return 0, 0
	}
	return sxq * sxq / sqq, float32(sxq / sqq)
}

// lossLinear returns Σ w·(scale·q - x)² with the nearest integers.
func lossLinear(x, w []float32, scale float32, half int) float64 {
	inv := inverse(scale)
	var e float64
	for i, v := range x {
		d := float64(float32(scale*float32(nearest(v*inv, -half, half-1))) - v)
		e += float64(float64(w[i]) * float64(d*d))
	}
	return e
}

// unit returns a unit of which the scales, weighted by w, are nearly integer
// multiples from 0 to most.
func unit(scales, w []float32, most int) float32 {
	hi := largest(scales)
	if !(hi > 0) || math.IsInf(float64(hi), 0) {
		return 0
	}
	best, d := 0.0, hi/float32(most)
	for try := -6; try <= 6; try++ {
		inv := (float32(most) + float32(try)*0.1) / hi
		var sqq, sxq float64
		for i, v := range scales {
			q := float64(nearest(v*inv, 0, most))
			wq := float64(float64(w[i]) * q)
			sqq += float64(wq * q)
			sxq += float64(wq * float64(v))
		}
		if sqq > 0 && sxq > 0 && sxq*sxq/sqq > best {
			best, d = sxq*sxq/sqq, float32(sxq/sqq)
		}
	}
	return d
}

// total returns Σ w.
func total(w []float32) float32 {
	var sum float32
	for _, v := range w {
		sum += v
	}
	return sum
}

// settle returns the best scale and minimum of a group as integers in units of
// d and dmin: the nearest ones or their neighbors.
func (a affine) settle(x, w []float32, scale, minimum, d, dmin float32, most int) (s, m int) {
	near, low := nearest(scale*inverse(d), 0, most), nearest(minimum*inverse(dmin), 0, most)
	best := math.Inf(1)
	for _, i := range [...]int{near, near - 1, near + 1} {
		for _, j := range [...]int{low, low - 1, low + 1} {
			if i < 0 || i > most || j < 0 || j > most {
				continue
			}
			if e := a.loss(x, w, d*float32(i), dmin*float32(j)); e < best {
				best, s, m = e, i, j
			}
		}
	}
	if math.IsInf(best, 1) { // NaN elements
		return near, low
	}
	return s, m
}

// settleLinear is settle for a scale without minimum, -half to half-1.
func settleLinear(x, w []float32, scale, d float32, scaleHalf, half int) int {
	near := nearest(scale*inverse(d), -scaleHalf, scaleHalf-1)
	best, s := math.Inf(1), near
	for _, i := range [...]int{near, near - 1, near + 1} {
		if i < -scaleHalf || i >= scaleHalf {
			continue
		}
		if e := lossLinear(x, w, d*float32(i), half); e < best {
			best, s = e, i
		}
	}
	return s
}
