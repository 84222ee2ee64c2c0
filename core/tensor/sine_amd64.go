//go:build amd64 && !purego

package tensor

// wavesAVX512 computes wave for n numbers, a multiple of 8, and returns the number
// of those before the first eight of which one is too large or not finite.
//
//go:noescape
func wavesAVX512(dst, x *float32, n int, shift float64, constants *float64) int

func wavesVector(dst, x []float32, shift float64) int {
	n := len(x) &^ 7
	if !hasAVX512 || n == 0 {
		return 0
	}
	return wavesAVX512(&dst[0], &x[0], n, shift, &waveConstants[0])
}
