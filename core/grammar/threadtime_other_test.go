//go:build !linux

package grammar_test

import "time"

var started = time.Now()

// threadTime is the time that passed: how long a thread has had a processor is
// asked of Linux alone.
func threadTime() time.Duration { return time.Since(started) }
