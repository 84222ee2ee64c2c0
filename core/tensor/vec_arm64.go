//go:build !purego

package tensor

// Every arm64 processor has NEON. The other kernels are in vec_noasm.go.

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
