//go:build amd64 && !purego

package tensor

import "testing"

// TestOlderConv repeats the tests with AVX2 only.
func TestOlderConv(t *testing.T) {
	if bestConv != &convAVX512 {
		t.Skip("skipped: the best kernels are the older ones")
	}
	bestConv = &convAVX2
	defer func() { bestConv = &convAVX512 }()
	t.Run("Agree", TestConvKernelsAgree)
	t.Run("Dense", TestConvDense)
	t.Run("Width", TestConvWidth)
	t.Run("Shape", TestShape)
	t.Run("Lanes", TestLanes)
	t.Run("Winograd", TestWinograd)
	t.Run("Range", TestRowRange)
}
