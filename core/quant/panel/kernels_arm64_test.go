//go:build !purego

package panel

import "testing"

// TestOlderKernels repeats the tests with fewer processor features.
func TestOlderKernels(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: all kernels of older processors")
	}
	dot, i8mm := hasDot, hasI8MM
	defer func() { hasDot, hasI8MM = dot, i8mm }()
	for name, set := range map[string]func(){
		"SDOT":  func() { hasDot, hasI8MM = dot, false },
		"plain": func() { hasDot, hasI8MM = false, false },
	} {
		set()
		t.Run(name, func(t *testing.T) {
			t.Run("Mul", TestMul)
			t.Run("BatchInvariance", TestBatchInvariance)
			t.Run("Extremes", TestExtremes)
			t.Run("NaN", TestNaNScale)
		})
	}
}
