//go:build !linux

package server

func memoryTemp() (remove func()) { return func() {} }
