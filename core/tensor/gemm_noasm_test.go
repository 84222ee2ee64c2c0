//go:build !amd64 || purego

package tensor

func fmaBurst() float64 { return fmaScalar(2_000_000) }
