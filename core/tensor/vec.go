package tensor

import "math"

// The vector kernels below work on float32 slices. Lengths must agree;
// otherwise kernels panic, because only a bug of the caller can cause that. The
// order of sums is fixed and depends on the length only.

const errLength = "tensor: vector lengths differ"

// Dot returns Σ a[i]·b[i].
func Dot(a, b []float32) float32 {
	if len(a) != len(b) {
		panic(errLength)
	}
	return dot(a, b)
}

// Axpy adds a·x to y: y[i] += a·x[i].
func Axpy(y []float32, a float32, x []float32) {
	if len(y) != len(x) {
		panic(errLength)
	}
	axpy(y, a, x)
}

// Add adds x to y: y[i] += x[i].
func Add(y, x []float32) {
	if len(y) != len(x) {
		panic(errLength)
	}
	add(y, x)
}

// Scale multiplies x by a: x[i] *= a.
func Scale(x []float32, a float32) { scale(x, a) }

// Max returns the largest element of x, -Inf if x is empty. NaNs are ignored.
func Max(x []float32) float32 { return maximum(x) }

// ExpSum sets dst[i] = exp(x[i] - sub) and returns the sum of dst. dst and x
// may be the same slice. The relative error of an element is below 2⁻²²;
// results below 1.1762e-38, the smallest normal number, are 0.
func ExpSum(dst, x []float32, sub float32) float32 {
	if len(dst) != len(x) {
		panic(errLength)
	}
	return expSum(dst, x, sub)
}

// RMSNorm sets dst[i] = x[i] · gain[i] / sqrt(mean(x²) + eps) (Zhang and
// Sennrich, arXiv 1910.07467). dst and x may be the same slice.
func RMSNorm(dst, x, gain []float32, eps float32) {
	if len(dst) != len(x) || len(gain) != len(x) {
		panic(errLength)
	}
	if len(x) == 0 {
		return
	}
	mean := dot(x, x) / float32(len(x))
	mulScaled(dst, x, gain, float32(1/math.Sqrt(float64(mean+eps))))
}

// SiLUMul sets dst[i] = gate[i] / (1 + exp(-gate[i])) · up[i]: the SwiGLU of
// Shazeer (arXiv 2002.05202). dst may be gate or up.
func SiLUMul(dst, gate, up []float32) {
	if len(dst) != len(gate) || len(up) != len(gate) {
		panic(errLength)
	}
	siluMul(dst, gate, up)
}

// RopePairs rotates the pairs (x[2i], x[2i+1]) by the angles with cosines
// cos[i] and sines sin[i]: rotary position embedding as in the RoFormer paper
// (arXiv 2104.09864) and in GGUF's architecture llama. x has twice the length
// of cos and sin.
func RopePairs(x, cos, sin []float32) {
	if len(cos) != len(sin) || len(x) != 2*len(cos) {
		panic(errLength)
	}
	ropePairs(x, cos, sin)
}

// RopeHalves rotates the pairs (x[i], x[i+n/2]) instead: the layout of
// GPT-NeoX and of checkpoints from Hugging Face, GGUF's architecture qwen2.
func RopeHalves(x, cos, sin []float32) {
	if len(cos) != len(sin) || len(x) != 2*len(cos) {
		panic(errLength)
	}
	ropeHalves(x[:len(cos)], x[len(cos):], cos, sin)
}

// PanelWidth is the number of columns of a panel of [MulPanel].
const PanelWidth = 32

// MulPanel is the micro-kernel of float32 matrix products:
//
//	c (m × 32) = a (m × k) · b (k × 32), or c += a · b if acc is set.
//
// Row i of a begins at a[i·lda], row i of c at c[i·ldc]; b is contiguous. Each
// element is summed over k in ascending order into one accumulator, for any m,
// so a row's result does not depend on the other rows.
func MulPanel(c []float32, ldc int, a []float32, lda int, b []float32, m, k int, acc bool) {
	if checkPanel(c, ldc, a, lda, len(b), m, k, acc) {
		mulPanel(c, ldc, a, lda, b, m, k, acc)
	}
}

// MulPanelF16 is MulPanel with a right factor of little-endian binary16
// numbers. The result is bit-equal to that of MulPanel on their values.
func MulPanelF16(c []float32, ldc int, a []float32, lda int, b []byte, m, k int, acc bool) {
	if checkPanel(c, ldc, a, lda, len(b)/2, m, k, acc) {
		mulPanelF16(c, ldc, a, lda, b, m, k, acc)
	}
}

// checkPanel panics if a panel product is out of range. It reports false if
// there is nothing to compute; a product of depth 0 is done here.
func checkPanel(c []float32, ldc int, a []float32, lda, elems, m, k int, acc bool) bool {
	if m < 1 || k < 0 || ldc < PanelWidth && m > 1 || lda < k && m > 1 ||
		len(c) < (m-1)*ldc+PanelWidth || len(a) < (m-1)*lda+k || elems < k*PanelWidth {
		panic("tensor: panel product out of range")
	}
	if k == 0 && !acc {
		for i := range m {
			clear(c[i*ldc : i*ldc+PanelWidth])
		}
	}
	return k > 0
}
