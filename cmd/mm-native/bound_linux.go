package main

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// bound disables core dumps and limits the memory that the process may write to, in
// addition to its present memory, before a library is loaded; 0 means unlimited. A mapped
// weights file does not count: it belongs to the page cache.
func bound(memory int64) error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("disabling core dumps: %w", err)
	}
	if memory == 0 || memory > math.MaxInt64/2 {
		return nil
	}
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return fmt.Errorf("limiting memory: %w", err)
	}
	var size, resident, shared, code, none, data int64 // pages
	if _, err := fmt.Sscan(string(text), &size, &resident, &shared, &code, &none, &data); err != nil {
		return fmt.Errorf("limiting memory: %w", err)
	}
	most := uint64(data*int64(os.Getpagesize()) + overhead + memory)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("limiting memory to %d bytes: %w", most, err)
	}
	return nil
}
