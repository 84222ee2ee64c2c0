//go:build unix && !linux

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// bound switches core dumps off. A limit on memory is mm's to keep by the size
// of the files: these systems have none that holds for mapped memory.
func bound(int64) error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("switching core dumps off: %w", err)
	}
	return nil
}
