package tensor

import "unsafe"

// Winograd's convolution by 3×3 in tiles of 4×4 (Lavin and Gray, arXiv
// 1509.09308): F(4×4, 3×3) transforms tiles of 6×6 inputs and the weights into
// 36 numbers each; their products, summed over channels, are transformed to 4×4
// outputs: 36 multiplications instead of 144. Its error is some ten times that
// of direct sums, and a non-finite number spreads over its tile.

// The sides of a tile, and the number of transformed elements.
const (
	WinogradOut = 4
	WinogradIn  = 6
	WinogradAll = WinogradIn * WinogradIn
)

// WinogradWeights transforms 3×3 weights.
func WinogradWeights(dst *[WinogradAll]float32, w *[9]float32) {
	side := func(a, b, c float64) [6]float64 {
		return [6]float64{a / 4, -(a + b + c) / 6, (-a + b - c) / 6, a/24 + b/12 + c/6, a/24 - b/12 + c/6, c}
	}
	var t [3][6]float64
	for i := range 3 {
		t[i] = side(float64(w[i]), float64(w[3+i]), float64(w[6+i]))
	}
	for r := range 6 {
		for c, v := range side(t[0][r], t[1][r], t[2][r]) {
			dst[r*6+c] = float32(v)
		}
	}
}

// WinogradInput transforms a tile of 6×6 vectors, whose rows are row elements
// apart, to 36 vectors step elements apart. tmp holds 36 vectors.
func (k ConvKernels) WinogradInput(dst []float32, step int, src []float32, row int, tmp []float32) {
	n := k.lanes
	if step < 0 || row < 0 || len(dst) < 35*step+n || len(src) < 5*row+6*n || len(tmp) < 36*n {
		panic("tensor: tile out of range")
	}
	if k.level == nil {
		winogradInputPlain(dst, step, src, row, n)
		return
	}
	k.level.in(&dst[0], uintptr(step)*4, &src[0], uintptr(row)*4, &tmp[0])
}

// WinogradOutput transforms 36 vectors step elements apart to a tile of 4×4
// outputs, whose rows are row elements apart, adds the bias and add, which has
// the layout of the outputs or is nil, and clamps them to low…high.
func (k ConvKernels) WinogradOutput(dst []float32, row int, src []float32, step int, tmp, bias, add []float32, low, high float32) {
	n := k.lanes
	if step < 0 || row < 0 || len(src) < 35*step+n || len(dst) < 3*row+4*n || len(tmp) < 36*n || len(bias) < n || add != nil && len(add) < 3*row+4*n {
		panic("tensor: tile out of range")
	}
	if k.level == nil {
		winogradOutputPlain(dst, row, src, step, n, bias, add, low, high)
		return
	}
	k.level.out(&dst[0], uintptr(row)*4, &src[0], uintptr(step)*4, &tmp[0], &bias[0], unsafe.SliceData(add), low, high)
}

// winogradInputPlain is the oracle of WinogradInput.
func winogradInputPlain(dst []float32, step int, src []float32, row, lanes int) {
	side := func(d [6]float32) [6]float32 {
		even, odd, near, far := d[4]-4*d[2], d[3]-4*d[1], d[4]-d[2], 2*(d[3]-d[1])
		return [6]float32{4*(d[0]-d[2]) + near, even + odd, even - odd, near + far, near - far, d[5] - d[3] - 2*far}
	}
	for l := range lanes {
		var t [6][6]float32
		for c := range 6 {
			var d [6]float32
			for r := range d {
				d[r] = src[r*row+c*lanes+l]
			}
			t[c] = side(d)
		}
		for r := range 6 {
			for c, v := range side([6]float32{t[0][r], t[1][r], t[2][r], t[3][r], t[4][r], t[5][r]}) {
				dst[(r*6+c)*step+l] = v
			}
		}
	}
}

// winogradOutputPlain is the oracle of WinogradOutput.
func winogradOutputPlain(dst []float32, row int, src []float32, step, lanes int, bias, add []float32, low, high float32) {
	side := func(m [6]float32) [4]float32 {
		a, b, c, d := m[1]+m[2], m[1]-m[2], m[3]+m[4], m[3]-m[4]
		return [4]float32{m[0] + a + c, b + 2*d, a + 4*c, b + m[5] + 8*d}
	}
	for l := range lanes {
		var t [6][4]float32
		for c := range 6 {
			var m [6]float32
			for r := range m {
				m[r] = src[(r*6+c)*step+l]
			}
			t[c] = side(m)
		}
		for r := range 4 {
			for c, v := range side([6]float32{t[0][r], t[1][r], t[2][r], t[3][r], t[4][r], t[5][r]}) {
				v += bias[l]
				if add != nil {
					v += add[r*row+c*lanes+l]
				}
				dst[r*row+c*lanes+l] = bound(v, low, high)
			}
		}
	}
}
