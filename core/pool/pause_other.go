//go:build !amd64 && !arm64

package pool

import "runtime"

// pause yields to other goroutines: this processor has no pause instruction.
func pause() { runtime.Gosched() }
