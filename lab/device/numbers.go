package device

import (
	"math"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/lab/device/evidence"
)

// Cosine returns the cosine similarity of two vectors. It is NaN if one of them is zero or
// contains NaN, or if their lengths differ.
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

// addGrid counts the distances of values from the nearest 16-bit float, in units in the
// last place of a 32-bit float. Zeros and non-finite values are skipped.
func addGrid(g *evidence.Grid, values []float32) {
	for _, v := range values {
		if v == 0 || v-v != 0 {
			continue
		}
		g.Values++
		nearest := tensor.F16ToF32(tensor.F32ToF16(v))
		if nearest == v {
			continue
		}
		g.Off++
		distance := int64(math.Float32bits(v)) - int64(math.Float32bits(nearest))
		g.MaxULP = max(g.MaxULP, distance, -distance)
	}
}
