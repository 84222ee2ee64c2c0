//go:build !amd64 || purego

package tensor

// bestConv is nil: there are no kernels for this processor.
var bestConv *convLevel

func interleave(dst []float32, lanes int, x []float32, ld, channels, n int) {
	interleavePlain(dst, lanes, x, ld, channels, n)
}

func deinterleave(dst []float32, ld int, x []float32, lanes, channels, n int) {
	deinterleavePlain(dst, ld, x, lanes, channels, n)
}
