//go:build amd64 && !purego

package tensor

// fmaBurst runs fused multiply-adds from registers and returns the number of
// flops.
func fmaBurst() float64 {
	const n = 2_000_000
	switch gemmWidth {
	case width512:
		fmaLoop512(n)
		return n * 16 * 16 * 2
	case width256:
		fmaLoop256(n)
		return n * 12 * 8 * 2
	}
	return fmaScalar(n)
}
