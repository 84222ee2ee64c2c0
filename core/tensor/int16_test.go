package tensor

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestMulInt16(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	integers := func(n int) []int16 {
		x := make([]int16, n)
		for i := range x {
			x[i] = int16(r.IntN(511) - 255)
		}
		return x
	}
	for _, m := range []int{0, 1, 2, 3, 5, 8} {
		for _, n := range []int{0, 1, 3, 4, 5, 8, 13} {
			for _, k := range []int{0, 16, 32, 48, 528} {
				ldc := n + r.IntN(2)
				a, b := integers(m*k), integers(n*k)
				got, want := make([]int32, m*ldc+1), make([]int32, m*ldc+1)
				for i := range got {
					got[i], want[i] = 7, 7
				}
				for i := range m {
					for j := range n {
						want[i*ldc+j] = 0
						for p := range k {
							want[i*ldc+j] += int32(a[i*k+p]) * int32(b[j*k+p])
						}
					}
				}
				MulInt16(got, ldc, a, b, m, n, k)
				if !slices.Equal(got, want) {
					t.Fatalf("%d×%d of depth %d: %v, want %v", m, n, k, got, want)
				}
			}
		}
	}
}

func BenchmarkMulInt16(b *testing.B) {
	x, y, c := make([]int16, 128*512), make([]int16, 128*512), make([]int32, 128*128)
	b.SetBytes(128 * 128 * 512) // products
	for b.Loop() {
		MulInt16(c, 128, x, y, 128, 128, 512)
	}
}
