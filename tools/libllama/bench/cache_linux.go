package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// dropCache has the system forget the file's pages, by posix_fadvise: those
// that are written and nobody maps, which needs no rights.
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
