//go:build !linux

package remote

func memoryTemp() (remove func()) { return func() {} }
