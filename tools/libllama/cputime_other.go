//go:build !unix

package libllama

import "time"

var begin = time.Now()

// CPUTime is the time elapsed, where processor time is not to be had.
func CPUTime() time.Duration { return time.Since(begin) }
