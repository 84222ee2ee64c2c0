//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// keepOutput reserves standard output for the protocol and redirects what libraries print there
// to standard error.
func keepOutput() (*os.File, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	if err := unix.Dup2(2, 1); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "mm"), nil
}
