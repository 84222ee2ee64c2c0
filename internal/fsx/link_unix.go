//go:build unix

package fsx

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// linkat links the path from, through symbolic links, as name in the open
// folder parent.
func linkat(from string, parent *os.File, name string) error {
	return unix.Linkat(unix.AT_FDCWD, from, int(parent.Fd()), name, unix.AT_SYMLINK_FOLLOW)
}

// cannotLink tells errors that a copy gets around.
func cannotLink(err error) bool {
	for _, e := range []error{unix.EXDEV, unix.EPERM, unix.EACCES, unix.EMLINK, unix.ENOSYS, unix.EOPNOTSUPP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// retrySharing runs f; only Windows refuses to rename over an open file.
func retrySharing(f func() error) error { return f() }

// links is how many names an open file has.
func links(f *os.File) (uint64, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	return uint64(st.Nlink), os.NewSyscallError("fstat", err)
}
