//go:build amd64 && !purego

package tensor

// The kernels in activate_amd64.s. n is a positive multiple of 8.

//go:noescape
func expAVX2(dst, x *float32, n int)

//go:noescape
func sigmoidAVX2(dst, x *float32, n int)

//go:noescape
func tanhAVX2(dst, x *float32, n int)

//go:noescape
func erfAVX2(dst, x *float32, n int)

//go:noescape
func geluAVX2(dst, x *float32, n int)

//go:noescape
func siluAVX2(dst, x *float32, n int)

//go:noescape
func sqrtAVX2(dst, x *float32, n int)

//go:noescape
func leakyAVX2(dst, x *float32, n int, a float32)

//go:noescape
func addToAVX2(dst, x *float32, n int, a float32)

//go:noescape
func subFromAVX2(dst, x *float32, n int, a float32)

//go:noescape
func mulByAVX2(dst, x *float32, n int, a float32)

//go:noescape
func divByAVX2(dst, x *float32, n int, a float32)

//go:noescape
func divFromAVX2(dst, x *float32, n int, a float32)

//go:noescape
func hardSigmoidAVX2(dst, x *float32, n int, a, b float32)

//go:noescape
func hardSwishAVX2(dst, x *float32, n int, a, b float32)

//go:noescape
func clipAVX2(dst, x *float32, n int, lo, hi float32)

//go:noescape
func linearAVX2(dst, x *float32, n int, a, b float32)

//go:noescape
func addVecAVX2(dst, a, b *float32, n int)

//go:noescape
func subVecAVX2(dst, a, b *float32, n int)

//go:noescape
func mulVecAVX2(dst, a, b *float32, n int)

//go:noescape
func divVecAVX2(dst, a, b *float32, n int)

//go:noescape
func sumAVX2(x *float32, n int) float32

//go:noescape
func deviationAVX2(x *float32, n int, mean float32) float32

//go:noescape
func normaliseAVX2(dst, x, gain, bias *float32, n int, mean, scale float32)

//go:noescape
func lstmAVX2(h, c, i, o, f, u *float32, n int)

//go:noescape
func fromBytesAVX2(dst *float32, src *uint8, n int)

//go:noescape
func toBytesAVX2(dst *uint8, src *float32, n int)

// Each function below returns the number of elements it has done.

func expVec(dst, x []float32) int {
	n := lanes8(len(x))
	if n > 0 {
		expAVX2(&dst[0], &x[0], n)
	}
	return n
}

func sigmoidVec(dst, x []float32) int {
	n := lanes8(len(x))
	if n > 0 {
		sigmoidAVX2(&dst[0], &x[0], n)
	}
	return n
}

func tanhVec(dst, x []float32) int {
	n := lanes8(len(x))
	if n > 0 {
		tanhAVX2(&dst[0], &x[0], n)
	}
	return n
}

func erfVec(dst, x []float32) int {
	n := lanes8(len(x))
	if n > 0 {
		erfAVX2(&dst[0], &x[0], n)
	}
	return n
}

func geluVec(dst, x []float32) int {
	n := lanes8(len(x))
	if n > 0 {
		geluAVX2(&dst[0], &x[0], n)
	}
	return n
}

func siluVec(dst, x []float32) int {
	n := lanes8(len(x))
	if n > 0 {
		siluAVX2(&dst[0], &x[0], n)
	}
	return n
}

func sqrtVec(dst, x []float32) int {
	n := lanes8(len(x))
	if n > 0 {
		sqrtAVX2(&dst[0], &x[0], n)
	}
	return n
}

func leakyVec(dst, x []float32, a float32) int {
	n := lanes8(len(x))
	if n > 0 {
		leakyAVX2(&dst[0], &x[0], n, a)
	}
	return n
}

func addToVec(dst, x []float32, a float32) int {
	n := lanes8(len(x))
	if n > 0 {
		addToAVX2(&dst[0], &x[0], n, a)
	}
	return n
}

func subFromVec(dst, x []float32, a float32) int {
	n := lanes8(len(x))
	if n > 0 {
		subFromAVX2(&dst[0], &x[0], n, a)
	}
	return n
}

func mulByVec(dst, x []float32, a float32) int {
	n := lanes8(len(x))
	if n > 0 {
		mulByAVX2(&dst[0], &x[0], n, a)
	}
	return n
}

func divByVec(dst, x []float32, a float32) int {
	n := lanes8(len(x))
	if n > 0 {
		divByAVX2(&dst[0], &x[0], n, a)
	}
	return n
}

func divFromVec(dst, x []float32, a float32) int {
	n := lanes8(len(x))
	if n > 0 {
		divFromAVX2(&dst[0], &x[0], n, a)
	}
	return n
}

func hardSigmoidVec(dst, x []float32, a, b float32) int {
	n := lanes8(len(x))
	if n > 0 {
		hardSigmoidAVX2(&dst[0], &x[0], n, a, b)
	}
	return n
}

func hardSwishVec(dst, x []float32, a, b float32) int {
	n := lanes8(len(x))
	if n > 0 {
		hardSwishAVX2(&dst[0], &x[0], n, a, b)
	}
	return n
}

func clipVec(dst, x []float32, a, b float32) int {
	n := lanes8(len(x))
	if n > 0 {
		clipAVX2(&dst[0], &x[0], n, a, b)
	}
	return n
}

func linearVec(dst, x []float32, a, b float32) int {
	n := lanes8(len(x))
	if n > 0 {
		linearAVX2(&dst[0], &x[0], n, a, b)
	}
	return n
}

func addVec(dst, a, b []float32) int {
	n := lanes8(len(dst))
	if n > 0 {
		addVecAVX2(&dst[0], &a[0], &b[0], n)
	}
	return n
}

func subVec(dst, a, b []float32) int {
	n := lanes8(len(dst))
	if n > 0 {
		subVecAVX2(&dst[0], &a[0], &b[0], n)
	}
	return n
}

func mulVec(dst, a, b []float32) int {
	n := lanes8(len(dst))
	if n > 0 {
		mulVecAVX2(&dst[0], &a[0], &b[0], n)
	}
	return n
}

func divVec(dst, a, b []float32) int {
	n := lanes8(len(dst))
	if n > 0 {
		divVecAVX2(&dst[0], &a[0], &b[0], n)
	}
	return n
}

func sumVec(x []float32) (float32, int) {
	n := lanes8(len(x))
	if n == 0 {
		return 0, 0
	}
	return sumAVX2(&x[0], n), n
}

func deviationVec(x []float32, mean float32) (float32, int) {
	n := lanes8(len(x))
	if n == 0 {
		return 0, 0
	}
	return deviationAVX2(&x[0], n, mean), n
}

func normaliseVec(dst, x, gain, bias []float32, mean, scale float32) int {
	n := lanes8(len(dst))
	if n > 0 {
		normaliseAVX2(&dst[0], &x[0], &gain[0], &bias[0], n, mean, scale)
	}
	return n
}

func lstmVec(h, c, i, o, f, g []float32) int {
	n := lanes8(len(h))
	if n > 0 {
		lstmAVX2(&h[0], &c[0], &i[0], &o[0], &f[0], &g[0], n)
	}
	return n
}

func fromBytesVec(dst []float32, src []uint8) int {
	n := lanes8(len(dst))
	if n > 0 {
		fromBytesAVX2(&dst[0], &src[0], n)
	}
	return n
}

func toBytesVec(dst []uint8, x []float32) int {
	n := lanes8(len(dst))
	if n > 0 {
		toBytesAVX2(&dst[0], &x[0], n)
	}
	return n
}
