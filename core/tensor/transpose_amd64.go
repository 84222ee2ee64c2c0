//go:build amd64 && !purego

package tensor

// transposeBlocks processes the full blocks and returns the number of rows and
// columns done.
func transposeBlocks(dst []float32, ldd int, src []float32, lds, rows, cols int) (r8, c8 int) {
	r8, c8 = lanes8(rows), lanes8(cols)
	if r8 == 0 || c8 == 0 {
		return 0, 0
	}
	const part = 64 // columns at a time, to fit in the cache
	for c := 0; c < c8; c += part {
		for r := 0; r < r8; r += 8 {
			packTransposed8(min(part, c8-c)/8, &src[r*lds+c], uintptr(lds)*4, &dst[c*ldd+r], uintptr(ldd)*4)
		}
	}
	return r8, c8
}
