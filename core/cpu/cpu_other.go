//go:build (!amd64 && !arm64) || purego

package cpu

// detect returns Plain: there are no kernels for this processor.
func detect() []level { return []level{{Plain, nil}} }
