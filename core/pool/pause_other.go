//go:build !amd64 && !arm64

package pool

import "runtime"

// pause lets other goroutines run, as there is no instruction at hand.
func pause() { runtime.Gosched() }
