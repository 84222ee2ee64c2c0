//go:build unix && !linux

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// bound disables core dumps. mm enforces a limit of memory by the size of the files: these
// systems have no limit that holds for mapped memory.
func bound(int64) error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("disabling core dumps: %w", err)
	}
	return nil
}
