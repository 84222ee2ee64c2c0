package quant

import (
	"math"

	"mm-abi.org/mm/core/tensor"
)

// grid describes a type whose elements are integers of few bits on a scale
// stored in the block: value = scale·(q - zero) + offset, or scale·table[q]. A
// block is written in two steps, first the scales and then the integers, so
// that the integers may be chosen by something other than rounding.
type grid struct {
	zero, most int
	values     *[16]int8 // the table of IQ4, or nil

	// fit writes the scales of a cleared block for elements weighted by w.
	fit func(b []byte, x, w []float32)
	// steps reads the scales: one scale and offset for each element.
	steps func(b []byte, s *steps)
	// put writes the integers of a block, whose integers must be zero.
	put func(b []byte, q []byte)
	// flat weights elements by importance only, regardless of their size; near
	// weights sizes as without an importance matrix. Both choices were measured
	// to be best for the type.
	flat, near bool
}

// largestBlock is the number of elements of the largest block.
const largestBlock = 256

// steps holds the scales and offsets of the elements of a block, and the
// inverse scales.
type steps struct{ scale, offset, inverse [largestBlock]float32 }

// spread sets the elements lo to hi.
func (s *steps) spread(lo, hi int, scale, offset float32) {
	inv := inverse(scale)
	for i := lo; i < hi; i++ {
		s.scale[i], s.offset[i], s.inverse[i] = scale, offset, inv
	}
}

// gridOf returns the grid of a type; false if it has none.
func gridOf(t tensor.Type) (grid, bool) {
	switch t {
	case tensor.Q8_0:
		return grid{zero: 127, most: 254, fit: fitQ8_0, steps: stepsScale, put: putQ8_0}, true
	case tensor.Q4_0:
		return grid{zero: 8, most: 15, fit: fitQ4_0, steps: stepsScale, put: putQ4_0}, true
	case tensor.Q5_0:
		return grid{zero: 16, most: 31, fit: fitQ5_0, steps: stepsScale, put: putQ5_0}, true
	case tensor.Q4_1:
		return grid{most: 15, fit: fitQ4_1, steps: stepsRange, put: putQ4_1}, true
	case tensor.Q5_1:
		return grid{most: 31, fit: fitQ5_1, steps: stepsRange, put: putQ5_1}, true
	case tensor.IQ4_NL:
		return grid{most: 15, values: &tableIQ4, flat: true, fit: fitIQ4_NL, steps: stepsScale, put: putIQ4_NL}, true
	case tensor.IQ4_XS:
		return grid{most: 15, values: &tableIQ4, flat: true, fit: fitIQ4_XS, steps: stepsIQ4_XS, put: putIQ4_XS}, true
	case tensor.Q2_K:
		return grid{most: q2KMost, fit: fitQ2_K, steps: stepsQ2_K, put: putQ2_K}, true
	case tensor.Q3_K:
		return grid{zero: q3KHalf, most: 2*q3KHalf - 1, near: true, fit: fitQ3_K, steps: stepsQ3_K, put: putQ3_K}, true
	case tensor.Q4_K:
		return grid{most: 15, fit: fitQ4_K, steps: stepsK, put: putQ4_K}, true
	case tensor.Q5_K:
		return grid{most: 31, fit: fitQ5_K, steps: stepsK, put: putQ5_K}, true
	case tensor.Q6_K:
		return grid{zero: 32, most: 63, fit: fitQ6_K, steps: stepsQ6_K, put: putQ6_K}, true
	}
	return grid{}, false
}

// CanWeigh reports whether [QuantizeWeighted] and [Rounder] support t.
func CanWeigh(t tensor.Type) bool {
	_, ok := gridOf(t)
	return ok
}

// round returns the integer for v of an element with these steps.
func (g *grid) round(v, offset, inverse float32) byte {
	if g.values != nil {
		return nearestIQ4(v * inverse)
	}
	return byte(nearest((v-offset)*inverse, -g.zero, g.most-g.zero) + g.zero)
}

// value returns the value of an integer.
func (g *grid) value(q byte, scale, offset float32) float32 {
	if g.values != nil {
		return scale * float32(g.values[q])
	}
	return float32(scale*float32(int(q)-g.zero)) + offset
}

// encode fits and rounds one block.
func (g *grid) encode(b []byte, x, w []float32) {
	var s steps
	var q [largestBlock]byte
	clear(b)
	g.fit(b, x, w)
	g.steps(b, &s)
	for i, v := range x {
		q[i] = g.round(v, s.offset[i], s.inverse[i])
	}
	g.put(b, q[:len(x)])
}

// plain is encode without importance.
func (g *grid) plain(b []byte, x []float32) {
	var w [largestBlock]float32
	magnitudeWeights(w[:len(x)], x)
	g.encode(b, x, w[:len(x)])
}

// Fit is [Quantize] with fitted scales. It fits the types of few bits,
// including those of 32 elements with a minimum, for which Quantize maps to the
// block's extremes like ggml: the error is smaller in the same number of bytes.
// Q4_0 and Q5_0 are written as by Quantize: fitting reduces the squared error,
// but models whose elements are on a Q4_1 grid lose accuracy.
func Fit(dst []byte, src []float32, t tensor.Type) {
	g, ok := gridOf(t)
	if !ok || t == tensor.Q8_0 || t == tensor.Q4_0 || t == tensor.Q5_0 {
		Quantize(dst, src, t)
		return
	}
	if len(dst) != t.RowBytes(len(src)) {
		panic(errShape)
	}
	eachBlock(dst, src, t, g.plain)
}

// QuantizeWeighted is [Quantize] of one row with importance: for each column,
// the mean of the squares of the inputs it is multiplied with, finite and at
// least 0. Elements of the row are weighted by importance·√(σ² + x²), with σ²
// the row's mean square, by importance only (IQ4), or by importance·(σ + |x|),
// with σ that of 32 elements (Q3_K). Types without a scale, and MXFP4, whose
// scale is a power of two, are written as by Quantize.
func QuantizeWeighted(dst []byte, src, importance []float32, t tensor.Type) {
	g, ok := gridOf(t)
	if !ok {
		Quantize(dst, src, t)
		return
	}
	if len(dst) != t.RowBytes(len(src)) || len(importance) != len(src) {
		panic(errShape)
	}
	mean := meanSquare(src)
	var w [largestBlock]float32
	n := t.BlockSize()
	at := 0
	eachBlock(dst, src, t, func(b []byte, x []float32) {
		g.weigh(w[:n], x, importance[at:at+n], mean)
		at += n
		g.encode(b, x, w[:n])
	})
}

// weigh fills w with the weights of x; if the importance of the block is zero
// or infinite, all its elements have equal importance.
func (g *grid) weigh(w, x, importance []float32, mean float32) {
	var most float32
	if g.near {
		magnitudeWeights(w, x)
	}
	for i, v := range x {
		switch {
		case g.near:
			w[i] *= importance[i]
		case g.flat:
			w[i] = importance[i]
		default:
			w[i] = importance[i] * float32(math.Sqrt(float64(mean+float32(v*v))))
		}
		most = max(most, w[i])
	}
	if !(most > 0) || math.IsInf(float64(most), 0) {
		magnitudeWeights(w, x)
	}
}

func meanSquare(x []float32) float32 {
	var sum float64
	for _, v := range x {
		sum += float64(float64(v) * float64(v))
	}
	return float32(sum / float64(len(x)))
}

// Rounder writes blocks of a type whose integers are chosen one at a time.
type Rounder struct {
	grid  grid
	block []byte
	steps steps
	q     [largestBlock]byte
	n     int
}

// NewRounder returns a rounder for t, which must satisfy [CanWeigh].
func NewRounder(t tensor.Type) *Rounder {
	g, ok := gridOf(t)
	if !ok {
		panic("quant: unsupported type")
	}
	return &Rounder{grid: g, n: t.BlockSize()}
}

// Begin writes the scales of a block for elements x weighted by w; both have
// the length of a block.
func (r *Rounder) Begin(block []byte, x, w []float32) {
	if len(x) != r.n || len(w) != r.n {
		panic(errShape)
	}
	clear(block)
	r.block = block
	r.grid.fit(block, x, w)
	r.grid.steps(block, &r.steps)
}

// Round chooses the integer nearest to v for element i and returns its value.
func (r *Rounder) Round(i int, v float32) float32 {
	q := r.grid.round(v, r.steps.offset[i], r.steps.inverse[i])
	r.q[i] = q
	return r.grid.value(q, r.steps.scale[i], r.steps.offset[i])
}

// End writes the integers, all of which must have been chosen.
func (r *Rounder) End() { r.grid.put(r.block, r.q[:r.n]) }
