//go:build (!amd64 && !arm64) || purego

package cpu

// detect lists the levels of the processor: there are no kernels for it.
func detect() []level { return []level{{Plain, nil}} }
