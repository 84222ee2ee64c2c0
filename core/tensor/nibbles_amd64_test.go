//go:build amd64 && !purego

package tensor

import (
	"math"
	"testing"
)

// The kernel for older processors computes the same sum.
func TestNibblesAVX2(t *testing.T) {
	if !hasAVX2 {
		t.Skip("AVX2")
	}
	x, w, scales := make([]float32, 192), make([]byte, 96), []float32{0.5, -2, 3}
	for i := range x {
		x[i] = float32(i%13) - 6
	}
	for i := range w {
		w[i] = byte(37 * i)
	}
	got, want := nibblesAVX2(&x[0], &w[0], &scales[0], 3, 2), dotNibblesPlain(x, w, scales, 2)
	if math.Abs(float64(got-want)) > 1e-3 {
		t.Errorf("got %v, want %v", got, want)
	}
}
