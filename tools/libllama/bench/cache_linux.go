package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// dropCache removes the file's written, unmapped pages from the page cache by
// posix_fadvise, which needs no privileges.
func dropCache(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("dropping %s from the page cache: %w", path, err)
	}
	return nil
}
