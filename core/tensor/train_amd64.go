//go:build amd64 && !purego

package tensor

//go:noescape
func trainDot3(n int, x, y, z *float32) float32

//go:noescape
func trainSwiGLUBackward(n int, dh, gate, up, dgate, dup *float32)

//go:noescape
func trainReLU2(n int, x, h *float32)

//go:noescape
func trainReLU2Backward(n int, dh, x, dx *float32)

//go:noescape
func trainNormBackward(n int, r, c float32, dy, x, gain, skip, dx, dgain *float32)

//go:noescape
func trainAddSquares(n int, skip, x *float32) float32

//go:noescape
func trainSoftmax(n int, x *float32) (max, sum float32)

//go:noescape
func trainSoftmaxBackward(n int, lse, delta, scale float32, s, dp *float32)

//go:noescape
func trainSwiGLU(n int, gate, up, h *float32)

//go:noescape
func trainAdamW(n int, k *AdamW, p, grad, m, v *float32)

// lanes8 returns how many of the first n elements the 8-wide kernels process;
// plain Go processes the rest.
func lanes8(n int) int {
	if !hasAVX2 {
		return 0
	}
	return n &^ 7
}

func dot3(x, y, z []float32) (float32, int) {
	n := lanes8(min(len(x), len(y), len(z)))
	if n == 0 {
		return 0, 0
	}
	return trainDot3(n, &x[0], &y[0], &z[0]), n
}

func swiGLUBackward(dgate, dup, dh, gate, up []float32) int {
	n := lanes8(min(len(dgate), len(dup), len(dh), len(gate), len(up)))
	if n > 0 {
		trainSwiGLUBackward(n, &dh[0], &gate[0], &up[0], &dgate[0], &dup[0])
	}
	return n
}

func relu2(h, x []float32) int {
	n := lanes8(min(len(h), len(x)))
	if n > 0 {
		trainReLU2(n, &x[0], &h[0])
	}
	return n
}

func relu2Backward(dx, dh, x []float32) int {
	n := lanes8(min(len(dx), len(dh), len(x)))
	if n > 0 {
		trainReLU2Backward(n, &dh[0], &x[0], &dx[0])
	}
	return n
}

func addSquaresVec(x, skip []float32) (float32, int) {
	n := lanes8(min(len(x), len(skip)))
	if n == 0 {
		return 0, 0
	}
	return trainAddSquares(n, &skip[0], &x[0]), n
}

func normBackward(dx, skip, dgain, dy, x, gain []float32, r, c float32) int {
	n := lanes8(min(len(dx), len(skip), len(dgain), len(dy), len(x), len(gain)))
	if n > 0 {
		trainNormBackward(n, r, c, &dy[0], &x[0], &gain[0], &skip[0], &dx[0], &dgain[0])
	}
	return n
}

// softmax processes rows of full vectors.
func softmax(x []float32) (m, sum float32, ok bool) {
	if !hasAVX2 || len(x) == 0 || len(x)%8 != 0 {
		return 0, 0, false
	}
	m, sum = trainSoftmax(len(x), &x[0])
	return m, sum, true
}

func softmaxBackward(s, dp []float32, lse, delta, scale float32) bool {
	if !hasAVX2 || len(s) == 0 || len(s)%8 != 0 || len(dp) != len(s) {
		return false
	}
	trainSoftmaxBackward(len(s), lse, delta, scale, &s[0], &dp[0])
	return true
}

func swiGLU(h, gate, up []float32) int {
	n := lanes8(min(len(h), len(gate), len(up)))
	if n > 0 {
		trainSwiGLU(n, &gate[0], &up[0], &h[0])
	}
	return n
}

func (k *AdamW) update(p, g, m, v []float32) int {
	n := lanes8(min(len(p), len(g), len(m), len(v)))
	if n > 0 {
		trainAdamW(n, k, &p[0], &g[0], &m[0], &v[0])
	}
	return n
}
