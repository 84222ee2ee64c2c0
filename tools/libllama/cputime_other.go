//go:build !unix

package libllama

import "time"

var begin = time.Now()

// CPUTime returns the elapsed time, as processor time is not available.
func CPUTime() time.Duration { return time.Since(begin) }
