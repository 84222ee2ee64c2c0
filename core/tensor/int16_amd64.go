//go:build amd64 && !purego

package tensor

// int16x4 multiplies one row of a by four of b, ldb bytes apart; k is a
// positive multiple of 16.
//
//go:noescape
func int16x4(c *int32, a, b *int16, ldb uintptr, k int)

// int16x8 is int16x4 for two rows of a, lda bytes apart; the sums of the
// second go to c + ldc bytes.
//
//go:noescape
func int16x8(c *int32, ldc uintptr, a *int16, lda uintptr, b *int16, ldb uintptr, k int)

func mulInt16(c []int32, ldc int, a, b []int16, m, n, k int) {
	n4 := n &^ 3
	if !hasAVX2 || k == 0 {
		n4 = 0
	}
	i := 0
	for ; i+2 <= m && n4 > 0; i += 2 {
		for j := 0; j < n4; j += 4 {
			int16x8(&c[i*ldc+j], uintptr(ldc)*4, &a[i*k], uintptr(k)*2, &b[j*k], uintptr(k)*2, k)
		}
	}
	for ; i < m && n4 > 0; i++ {
		for j := 0; j < n4; j += 4 {
			int16x4(&c[i*ldc+j], &a[i*k], &b[j*k], uintptr(k)*2, k)
		}
	}
	mulInt16Plain(c, ldc, a, b, m, n, k, n4)
}
