package device

import (
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/lab/device/evidence"
)

// Cosine is that of the angle between two vectors. It is NaN where one of them
// is zero or not a number, or where they have not as many elements.
func Cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.NaN()
	}
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	return ab / (math.Sqrt(aa) * math.Sqrt(bb))
}

// addGrid counts how far values are from 16-bit floats, in units in the last
// place of a 32-bit float. Zeros and what is not finite show nothing.
func addGrid(g *evidence.Grid, values []float32) {
	for _, v := range values {
		if v == 0 || v-v != 0 {
			continue
		}
		g.Values++
		near := tensor.F16ToF32(tensor.F32ToF16(v))
		if near == v {
			continue
		}
		g.Off++
		away := int64(math.Float32bits(v)) - int64(math.Float32bits(near))
		g.MaxULP = max(g.MaxULP, away, -away)
	}
}
