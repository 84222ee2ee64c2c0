//go:build !amd64 || purego

package tensor

// Stand-ins for the kernels that only amd64 has in assembly.

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

func mulPanelF16(c []float32, ldc int, a []float32, lda int, b []byte, m, k int, acc bool) {
	mulPanelHalves(c, ldc, a, lda, b, m, k, acc)
}
