//go:build (!amd64 && !arm64) || purego

package tensor

func dot(a, b []float32) float32               { return dotPlain(a, b) }
func axpy(y []float32, a float32, x []float32) { axpyPlain(y, a, x) }
func fromF16(dst []float32, src []byte)        { fromF16Plain(dst, src) }
func mulPanel(c []float32, ldc int, a []float32, lda int, b []float32, m, k int, acc bool) {
	mulPanelPlain(c, ldc, a, lda, b, m, k, acc)
}
