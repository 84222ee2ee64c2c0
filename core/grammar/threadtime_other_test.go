//go:build !linux

package grammar_test

import "time"

var started = time.Now()

// threadTime returns the elapsed time: only Linux has the processor time of a
// thread.
func threadTime() time.Duration { return time.Since(started) }
