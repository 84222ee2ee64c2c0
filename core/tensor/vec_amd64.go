//go:build amd64 && !purego

package tensor

import "mm-abi.org/mm/core/cpu"

// The levels that the kernels are written for.
var (
	hasAVX2   = cpu.Has(cpu.AVX2)
	hasAVX512 = cpu.Has(cpu.AVX512)
)

// The kernels in vec_amd64.s and vec_panel_amd64.s. n is a positive multiple of 8.

//go:noescape
func dotAVX2(a, b *float32, n int) float32

//go:noescape
func axpyAVX2(y, x *float32, n int, a float32)

//go:noescape
func addAVX2(y, x *float32, n int)

//go:noescape
func scaleAVX2(x *float32, n int, a float32)

//go:noescape
func maxAVX2(x *float32, n int) float32

//go:noescape
func expSumAVX2(dst, x *float32, n int, sub float32) float32

//go:noescape
func expSumAVX512(dst, x *float32, n int, sub float32) float32

//go:noescape
func mulScaledAVX2(dst, x, gain *float32, n int, a float32)

//go:noescape
func siluMulAVX2(dst, gate, up *float32, n int)

// ropePairsAVX2 takes n pairs.
//
//go:noescape
func ropePairsAVX2(x, cos, sin *float32, n int)

//go:noescape
func ropeHalvesAVX2(lo, hi, cos, sin *float32, n int)

//go:noescape
func fromF16AVX2(dst *float32, src *byte, n int)

//go:noescape
func toF16AVX2(dst *byte, src *float32, n int)

//go:noescape
func fromBF16AVX2(dst *float32, src *byte, n int)

// The panel kernels take 8, 4, 2 or 1 rows; strides are in elements.

//go:noescape
func panel8AVX512(c *float32, ldc int, a *float32, lda int, b *float32, k int, acc bool)

//go:noescape
func panel4AVX512(c *float32, ldc int, a *float32, lda int, b *float32, k int, acc bool)

//go:noescape
func panel2AVX512(c *float32, ldc int, a *float32, lda int, b *float32, k int, acc bool)

//go:noescape
func panel1AVX512(c *float32, ldc int, a *float32, lda int, b *float32, k int, acc bool)

//go:noescape
func panel8F16AVX512(c *float32, ldc int, a *float32, lda int, b *byte, k int, acc bool)

//go:noescape
func panel4F16AVX512(c *float32, ldc int, a *float32, lda int, b *byte, k int, acc bool)

//go:noescape
func panel2F16AVX512(c *float32, ldc int, a *float32, lda int, b *byte, k int, acc bool)

//go:noescape
func panel1F16AVX512(c *float32, ldc int, a *float32, lda int, b *byte, k int, acc bool)

//go:noescape
func panel4AVX2(c *float32, ldc int, a *float32, lda int, b *float32, k int, acc bool)

//go:noescape
func panel1AVX2(c *float32, ldc int, a *float32, lda int, b *float32, k int, acc bool)

//go:noescape
func panel4F16AVX2(c *float32, ldc int, a *float32, lda int, b *byte, k int, acc bool)

//go:noescape
func panel1F16AVX2(c *float32, ldc int, a *float32, lda int, b *byte, k int, acc bool)

func dot(a, b []float32) float32 {
	n := len(a) &^ 7
	if !hasAVX2 || n == 0 {
		return dotPlain(a, b)
	}
	s := dotAVX2(&a[0], &b[0], n)
	for i := n; i < len(a); i++ {
		s += a[i] * b[i]
	}
	return s
}

func axpy(y []float32, a float32, x []float32) {
	n := 0
	if hasAVX2 && len(x) >= 8 {
		n = len(x) &^ 7
		axpyAVX2(&y[0], &x[0], n, a)
	}
	axpyPlain(y[n:], a, x[n:])
}

func add(y, x []float32) {
	n := 0
	if hasAVX2 && len(x) >= 8 {
		n = len(x) &^ 7
		addAVX2(&y[0], &x[0], n)
	}
	addPlain(y[n:], x[n:])
}

func scale(x []float32, a float32) {
	n := 0
	if hasAVX2 && len(x) >= 8 {
		n = len(x) &^ 7
		scaleAVX2(&x[0], n, a)
	}
	scalePlain(x[n:], a)
}

func maximum(x []float32) float32 {
	n := len(x) &^ 7
	if !hasAVX2 || n == 0 {
		return maxPlain(x)
	}
	m := maxAVX2(&x[0], n)
	if rest := maxPlain(x[n:]); rest > m {
		return rest
	}
	return m
}

func expSum(dst, x []float32, sub float32) float32 {
	n := len(x) &^ 7
	if !hasAVX2 || n == 0 {
		return expSumPlain(dst, x, sub)
	}
	s := expSumVec(dst, x, n, sub)
	if n == len(x) {
		return s
	}
	// The rest goes through the same kernel, so that an element's value does
	// not depend on its position.
	var rest [8]float32
	k := copy(rest[:], x[n:])
	expSumVec(rest[:], rest[:], 8, sub)
	for i := range k {
		dst[n+i] = rest[i]
		s += rest[i]
	}
	return s
}

func expSumVec(dst, x []float32, n int, sub float32) float32 {
	if hasAVX512 {
		return expSumAVX512(&dst[0], &x[0], n, sub)
	}
	return expSumAVX2(&dst[0], &x[0], n, sub)
}

func mulScaled(dst, x, gain []float32, a float32) {
	n := 0
	if hasAVX2 && len(x) >= 8 {
		n = len(x) &^ 7
		mulScaledAVX2(&dst[0], &x[0], &gain[0], n, a)
	}
	mulScaledPlain(dst[n:], x[n:], gain[n:], a)
}

func siluMul(dst, gate, up []float32) {
	n := 0
	if hasAVX2 && len(dst) >= 8 {
		n = len(dst) &^ 7
		siluMulAVX2(&dst[0], &gate[0], &up[0], n)
	}
	siluMulPlain(dst[n:], gate[n:], up[n:])
}

func ropePairs(x, cos, sin []float32) {
	n := 0
	if hasAVX2 && len(cos) >= 8 {
		n = len(cos) &^ 7
		ropePairsAVX2(&x[0], &cos[0], &sin[0], n)
	}
	ropePairsPlain(x[2*n:], cos[n:], sin[n:])
}

func ropeHalves(lo, hi, cos, sin []float32) {
	n := 0
	if hasAVX2 && len(cos) >= 8 {
		n = len(cos) &^ 7
		ropeHalvesAVX2(&lo[0], &hi[0], &cos[0], &sin[0], n)
	}
	ropeHalvesPlain(lo[n:], hi[n:], cos[n:], sin[n:])
}

func fromF16(dst []float32, src []byte) {
	n := 0
	if hasAVX2 && len(dst) >= 8 {
		n = len(dst) &^ 7
		fromF16AVX2(&dst[0], &src[0], n)
	}
	fromF16Plain(dst[n:], src[2*n:])
}

func toF16(dst []byte, src []float32) {
	n := 0
	if hasAVX2 && len(src) >= 8 {
		n = len(src) &^ 7
		toF16AVX2(&dst[0], &src[0], n)
	}
	toF16Plain(dst[2*n:], src[n:])
}

func fromBF16(dst []float32, src []byte) {
	n := 0
	if hasAVX2 && len(dst) >= 8 {
		n = len(dst) &^ 7
		fromBF16AVX2(&dst[0], &src[0], n)
	}
	fromBF16Plain(dst[n:], src[2*n:])
}

func mulPanel(c []float32, ldc int, a []float32, lda int, b []float32, m, k int, acc bool) {
	i := 0
	switch {
	case hasAVX512:
		for ; m-i >= 8; i += 8 {
			panel8AVX512(&c[i*ldc], ldc, &a[i*lda], lda, &b[0], k, acc)
		}
		if m-i >= 4 {
			panel4AVX512(&c[i*ldc], ldc, &a[i*lda], lda, &b[0], k, acc)
			i += 4
		}
		if m-i >= 2 {
			panel2AVX512(&c[i*ldc], ldc, &a[i*lda], lda, &b[0], k, acc)
			i += 2
		}
		if m-i == 1 {
			panel1AVX512(&c[i*ldc], ldc, &a[i*lda], lda, &b[0], k, acc)
		}
	case hasAVX2:
		for ; m-i >= 4; i += 4 {
			panel4AVX2(&c[i*ldc], ldc, &a[i*lda], lda, &b[0], k, acc)
		}
		for ; i < m; i++ {
			panel1AVX2(&c[i*ldc], ldc, &a[i*lda], lda, &b[0], k, acc)
		}
	default:
		mulPanelPlain(c, ldc, a, lda, b, m, k, acc)
	}
}

func mulPanelF16(c []float32, ldc int, a []float32, lda int, b []byte, m, k int, acc bool) {
	i := 0
	switch {
	case hasAVX512:
		for ; m-i >= 8; i += 8 {
			panel8F16AVX512(&c[i*ldc], ldc, &a[i*lda], lda, &b[0], k, acc)
		}
		if m-i >= 4 {
			panel4F16AVX512(&c[i*ldc], ldc, &a[i*lda], lda, &b[0], k, acc)
			i += 4
		}
		if m-i >= 2 {
			panel2F16AVX512(&c[i*ldc], ldc, &a[i*lda], lda, &b[0], k, acc)
			i += 2
		}
		if m-i == 1 {
			panel1F16AVX512(&c[i*ldc], ldc, &a[i*lda], lda, &b[0], k, acc)
		}
	case hasAVX2:
		for ; m-i >= 4; i += 4 {
			panel4F16AVX2(&c[i*ldc], ldc, &a[i*lda], lda, &b[0], k, acc)
		}
		for ; i < m; i++ {
			panel1F16AVX2(&c[i*ldc], ldc, &a[i*lda], lda, &b[0], k, acc)
		}
	default:
		mulPanelHalves(c, ldc, a, lda, b, m, k, acc)
	}
}
