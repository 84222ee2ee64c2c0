//go:build !amd64 || purego

package tensor

func mulInt16(c []int32, ldc int, a, b []int16, m, n, k int) { mulInt16Plain(c, ldc, a, b, m, n, k, 0) }
