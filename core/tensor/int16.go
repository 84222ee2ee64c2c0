package tensor

// Int16Step is the unit of the depth of [MulInt16].
const Int16Step = 16

// MulInt16 sets c[i·ldc + j] = Σ a[i·k + r]·b[j·k + r] for m rows of a and n of
// b, each of k numbers, k a multiple of [Int16Step]. The numbers are 8-bit
// numbers minus their zero points. Sums are taken modulo 2³², so their order
// does not matter; no pair of products may exceed 2³¹.
func MulInt16(c []int32, ldc int, a, b []int16, m, n, k int) {
	if k%Int16Step != 0 || m < 0 || n < 0 || k < 0 || len(a) < m*k || len(b) < n*k || m > 0 && n > 0 && (ldc < n && m > 1 || len(c) < (m-1)*ldc+n) {
		panic("tensor: integer product out of range")
	}
	mulInt16(c, ldc, a, b, m, n, k)
}

// mulInt16Plain computes the columns from j0 on.
func mulInt16Plain(c []int32, ldc int, a, b []int16, m, n, k, j0 int) {
	for i := range m {
		x := a[i*k : (i+1)*k]
		for j := j0; j < n; j++ {
			var s int32
			for r, v := range b[j*k : (j+1)*k] {
				s += int32(v) * int32(x[r])
			}
			c[i*ldc+j] = s
		}
	}
}
