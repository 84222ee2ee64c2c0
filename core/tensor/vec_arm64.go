//go:build !purego

package tensor

// Every arm64 processor has NEON. Kernels that are not here are the plain ones.

//go:noescape
func dotNEON(a, b *float32, n int) float32

//go:noescape
func axpyNEON(y, x *float32, n int, a float32)

//go:noescape
func fromF16NEON(dst *float32, src *byte, n int)

//go:noescape
func panelNEON(c, a, b *float32, k int)

func dot(a, b []float32) float32 {
	n := len(a) &^ 15
	if n == 0 {
		return dotPlain(a, b)
	}
	return dotNEON(&a[0], &b[0], n) + dotPlain(a[n:], b[n:])
}

func axpy(y []float32, a float32, x []float32) {
	n := len(x) &^ 15
	if n > 0 {
		axpyNEON(&y[0], &x[0], n, a)
	}
	axpyPlain(y[n:], a, x[n:])
}

func fromF16(dst []float32, src []byte) {
	n := len(dst) &^ 7
	if n > 0 {
		fromF16NEON(&dst[0], &src[0], n)
	}
	fromF16Plain(dst[n:], src[2*n:])
}

func mulPanel(c []float32, ldc int, a []float32, lda int, b []float32, m, k int, acc bool) {
	for i := range m {
		row := c[i*ldc : i*ldc+PanelWidth]
		if !acc {
			clear(row)
		}
		panelNEON(&row[0], &a[i*lda], &b[0], k)
	}
}

func mulPanelF16(c []float32, ldc int, a []float32, lda int, b []byte, m, k int, acc bool) {
	mulPanelHalves(c, ldc, a, lda, b, m, k, acc)
}

func add(y, x []float32)                           { addPlain(y, x) }
func scale(x []float32, a float32)                 { scalePlain(x, a) }
func maximum(x []float32) float32                  { return maxPlain(x) }
func expSum(dst, x []float32, sub float32) float32 { return expSumPlain(dst, x, sub) }
func mulScaled(dst, x, gain []float32, a float32)  { mulScaledPlain(dst, x, gain, a) }
func siluMul(dst, gate, up []float32)              { siluMulPlain(dst, gate, up) }
func ropePairs(x, cos, sin []float32)              { ropePairsPlain(x, cos, sin) }
func ropeHalves(lo, hi, cos, sin []float32)        { ropeHalvesPlain(lo, hi, cos, sin) }
func toF16(dst []byte, src []float32)              { toF16Plain(dst, src) }
func fromBF16(dst []float32, src []byte)           { fromBF16Plain(dst, src) }
