package tensor

import "math"

// The functions below are the steps of training other than matrix products,
// each with a forward and a backward form. They work on one row; float32 rows
// use assembly if the processor supports it, float64 rows use plain Go, which
// is the oracle and is used by gradient checks. The documentation of a backward
// function states which results it adds to and which it overwrites.

// NormForward sets y[i] = x[i]·gain[i]·r with r = 1/√(mean(x²) + eps), RMSNorm
// (Zhang and Sennrich, arXiv 1910.07467), and returns r, an argument of
// NormBackward.
func NormForward[F Float](y, x, gain []F, eps F) F {
	mean := Inner(x, x) / F(len(x))
	r := F(1 / math.Sqrt(float64(mean+eps)))
	normScale(y, x, gain, r)
	return r
}

// AddNormForward adds skip, the input of a residual block, to x, its output,
// and applies NormForward.
func AddNormForward[F Float](y, x, skip, gain []F, eps F) F {
	mean := addSquares(x, skip) / F(len(x))
	r := F(1 / math.Sqrt(float64(mean+eps)))
	normScale(y, x, gain, r)
	return r
}

// addSquares adds skip to x and returns Σ x².
func addSquares[F Float](x, skip []F) F {
	var s F
	n := 0
	if xf, ok := any(x).([]float32); ok {
		var v float32
		v, n = addSquaresVec(xf, any(skip).([]float32))
		s = F(v)
	}
	for i := n; i < len(x); i++ {
		x[i] += skip[i]
		s += x[i] * x[i]
	}
	return s
}

// normScale sets y[i] = x[i]·gain[i]·r.
func normScale[F Float](y, x, gain []F, r F) {
	if yf, ok := any(y).([]float32); ok {
		mulScaled(yf, any(x).([]float32), any(gain).([]float32), float32(r))
		return
	}
	for i, v := range x {
		y[i] = v * r * gain[i]
	}
}

// NormBackward adds the gradients of NormForward: with g = dy·gain,
// dx += r·g - x·r³·mean(g·x) and dgain += dy·x·r.
func NormBackward[F Float](dx, dgain, dy, x, gain []F, r F) {
	SkipNormBackward(dx, dx, dgain, dy, x, gain, r)
}

// SkipNormBackward is NormBackward that also adds to skip, the gradient of the
// residual connection, and leaves the sum in dx.
func SkipNormBackward[F Float](dx, skip, dgain, dy, x, gain []F, r F) {
	c := r * r * r * inner3(dy, gain, x) / F(len(x))
	n := 0
	if df, ok := any(dx).([]float32); ok {
		n = normBackward(df, any(skip).([]float32), any(dgain).([]float32), any(dy).([]float32), any(x).([]float32), any(gain).([]float32), float32(r), float32(c))
	}
	for i := n; i < len(dx); i++ {
		rdy := r * dy[i]
		dgain[i] += rdy * x[i]
		dx[i] = skip[i] + (rdy*gain[i] - c*x[i])
	}
}

// SwiGLUForward sets h[i] = gate[i]·σ(gate[i])·up[i] (Shazeer, arXiv 2002.05202).
func SwiGLUForward[F Float](h, gate, up []F) {
	n := 0
	if hf, ok := any(h).([]float32); ok {
		n = swiGLU(hf, any(gate).([]float32), any(up).([]float32))
	}
	for i := n; i < len(h); i++ {
		h[i] = gate[i] * sigmoid(gate[i]) * up[i]
	}
}

// SwiGLUBackward sets the gradients of SwiGLUForward: with s = σ(gate),
// dgate = dh·up·s·(1 + gate·(1-s)) and dup = dh·gate·s.
func SwiGLUBackward[F Float](dgate, dup, dh, gate, up []F) {
	n := 0
	if df, ok := any(dgate).([]float32); ok {
		n = swiGLUBackward(df, any(dup).([]float32), any(dh).([]float32), any(gate).([]float32), any(up).([]float32))
	}
	for i := n; i < len(dh); i++ {
		g, s := gate[i], sigmoid(gate[i])
		dup[i] = dh[i] * s * g
		dgate[i] = dh[i] * s * up[i] * (1 + g*(1-s))
	}
}

// ReLU2Forward sets h[i] = max(x[i], 0)² (So et al., arXiv 2109.08668).
func ReLU2Forward[F Float](h, x []F) {
	n := 0
	if hf, ok := any(h).([]float32); ok {
		n = relu2(hf, any(x).([]float32))
	}
	for i := n; i < len(x); i++ {
		v := max(x[i], 0)
		h[i] = v * v
	}
}

// ReLU2Backward sets dx[i] = 2·dh[i]·max(x[i], 0).
func ReLU2Backward[F Float](dx, dh, x []F) {
	n := 0
	if df, ok := any(dx).([]float32); ok {
		n = relu2Backward(df, any(dh).([]float32), any(x).([]float32))
	}
	for i := n; i < len(x); i++ {
		dx[i] = 2 * max(x[i], 0) * dh[i]
	}
}

// masked is a score so low that its exponential is zero relative to any other.
const masked = -1e30

// SoftmaxForward replaces the scores x[from:to] by their softmax and all other
// elements by zeros: a row of causal attention. It returns the logarithm of the
// sum of exponentials, from which SoftmaxBackward recomputes the row. Rows of a
// multiple of eight elements are fastest.
func SoftmaxForward[F Float](x []F, from, to int) F {
	lo, hi := around(x, from, to)
	if xf, ok := any(x[lo:hi]).([]float32); ok {
		if m, sum, ok := softmax(xf); ok {
			return F(m) + F(math.Log(float64(sum)))
		}
	}
	m := largest(x[lo:hi])
	sum := ExpShifted(x[lo:hi], m)
	ScaleBy(x[lo:hi], 1/sum)
	return m + F(math.Log(float64(sum)))
}

// around masks the elements outside x[from:to] in full vectors and clears the
// rest: x[lo:hi] remains to be computed.
func around[F Float](x []F, from, to int) (lo, hi int) {
	lo, hi = from&^7, min((to+7)&^7, len(x))
	for i := lo; i < from; i++ {
		x[i] = masked
	}
	for i := to; i < hi; i++ {
		x[i] = masked
	}
	clear(x[:lo])
	clear(x[hi:])
	return lo, hi
}

// SoftmaxBackward replaces the scores s, of SoftmaxForward's row, by their
// softmax p, and the gradient dp of p by that of the scores, scale·p·(dp -
// delta), with delta = Σ p·dp and scale the factor of the scores.
func SoftmaxBackward[F Float](s, dp []F, from, to int, lse, delta, scale F) {
	lo, hi := around(s, from, to)
	clear(dp[:lo])
	clear(dp[hi:])
	s, dp = s[lo:hi], dp[lo:hi]
	if sf, ok := any(s).([]float32); ok && softmaxBackward(sf, any(dp).([]float32), float32(lse), float32(delta), float32(scale)) {
		return
	}
	ExpShifted(s, lse)
	for i, p := range s {
		dp[i] = scale * p * (dp[i] - delta)
	}
}

// CrossEntropy returns -log softmax(x)[target], in nats, computed from the
// logarithm of the sum of exponentials and so without clamping, and replaces x
// by scale times the gradient of that loss.
func CrossEntropy[F Float](x []F, target int, scale F) F {
	m, logit := largest(x), x[target]
	sum := ExpShifted(x, m)
	ScaleBy(x, scale/sum)
	x[target] -= scale
	return m + F(math.Log(float64(sum))) - logit
}

// NegLogLikelihood returns the loss of CrossEntropy; x is scratch afterwards.
func NegLogLikelihood[F Float](x []F, target int) F {
	m, logit := largest(x), x[target]
	return m + F(math.Log(float64(ExpShifted(x, m)))) - logit
}

// ExpShifted replaces x by exp(x - shift) and returns the sum.
func ExpShifted[F Float](x []F, shift F) F {
	if xf, ok := any(x).([]float32); ok {
		return F(expSum(xf, xf, float32(shift)))
	}
	var sum F
	for i, v := range x {
		x[i] = F(math.Exp(float64(v - shift)))
		sum += x[i]
	}
	return sum
}

// Rotate applies rotary position embedding (arXiv 2104.09864) to the heads in
// x, each dim elements wide and rotated by dim/2 angles with the cosines cos
// and sines sin: pairs (x[i], x[i+dim/2]), or (x[2i], x[2i+1]) if pairs is set.
// The transpose, for the backward pass, is the rotation by negated sines.
func Rotate[F Float](x []F, dim int, cos, sin []F, pairs bool) {
	half := dim / 2
	for ; len(x) > 0; x = x[dim:] {
		h := x[:dim]
		if hf, ok := any(h).([]float32); ok {
			cf, sf := any(cos).([]float32), any(sin).([]float32)
			if pairs {
				ropePairs(hf, cf, sf)
			} else {
				ropeHalves(hf[:half], hf[half:], cf, sf)
			}
			continue
		}
		for i, c := range cos {
			lo, hi := i, i+half
			if pairs {
				lo, hi = 2*i, 2*i+1
			}
			a, b := h[lo], h[hi]
			h[lo], h[hi] = a*c-b*sin[i], a*sin[i]+b*c
		}
	}
}

// Inner returns Σ x[i]·y[i].
func Inner[F Float](x, y []F) F {
	if xf, ok := any(x).([]float32); ok {
		return F(dot(xf, any(y).([]float32)))
	}
	var s F
	for i, v := range x {
		s += v * y[i]
	}
	return s
}

// AddScaled sets y += a·x.
func AddScaled[F Float](y []F, a F, x []F) {
	if yf, ok := any(y).([]float32); ok {
		axpy(yf, float32(a), any(x).([]float32))
		return
	}
	for i, v := range x {
		y[i] += a * v
	}
}

// ScaleBy sets x *= a.
func ScaleBy[F Float](x []F, a F) {
	if xf, ok := any(x).([]float32); ok {
		scale(xf, float32(a))
		return
	}
	for i := range x {
		x[i] *= a
	}
}

// largest returns the maximum of x.
func largest[F Float](x []F) F {
	if xf, ok := any(x).([]float32); ok {
		return F(maximum(xf))
	}
	m := x[0]
	for _, v := range x[1:] {
		m = max(m, v)
	}
	return m
}

// inner3 returns Σ x·y·z.
func inner3[F Float](x, y, z []F) F {
	var s F
	n := 0
	if xf, ok := any(x).([]float32); ok {
		var v float32
		v, n = dot3(xf, any(y).([]float32), any(z).([]float32))
		s = F(v)
	}
	for i := n; i < len(x); i++ {
		s += x[i] * y[i] * z[i]
	}
	return s
}

// sigmoid returns 1/(1 + e^-x) in the precision of F.
func sigmoid[F Float](x F) F { return F(1 / (1 + math.Exp(-float64(x)))) }

// AdamW holds the coefficients of one update of AdamW (Loshchilov and Hutter,
// arXiv 1711.05101), with the bias corrections included. See Update.
type AdamW struct {
	GradScale     float32 // factor on every gradient: clipping, averaging
	Beta1, Inv1   float32 // β1 and 1-β1
	Beta2, Inv2   float32 // β2 and 1-β2
	Rate          float32 // learning rate / (1-β1ᵗ)
	RootCorrect   float32 // 1/√(1-β2ᵗ)
	Epsilon       float32
	DecayedWeight float32 // 1 - learning rate · weight decay
}

// Update advances the parameters p and both moments by the gradient g:
// m = β1·m + (1-β1)·g, v = β2·v + (1-β2)·g²,
// p = p·DecayedWeight - Rate·m/(√v·RootCorrect + Epsilon).
func (k *AdamW) Update(p, g, m, v []float32) {
	g, m, v = g[:len(p)], m[:len(p)], v[:len(p)]
	for i := k.update(p, g, m, v); i < len(p); i++ {
		gi := g[i] * k.GradScale
		m[i] = k.Beta1*m[i] + k.Inv1*gi
		v[i] = k.Beta2*v[i] + k.Inv2*gi*gi
		root := float32(math.Sqrt(float64(v[i])))*k.RootCorrect + k.Epsilon
		p[i] = p[i]*k.DecayedWeight - m[i]*k.Rate/root
	}
}
