//go:build !amd64

package tensor

func fmaBurst() float64 { return fmaScalar(2_000_000) }
