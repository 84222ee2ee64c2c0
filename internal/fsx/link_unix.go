//go:build unix

package fsx

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// linkat links the path from, following symbolic links, as name in the open folder parent.
func linkat(from string, parent *os.File, name string) error {
	return unix.Linkat(unix.AT_FDCWD, from, int(parent.Fd()), name, unix.AT_SYMLINK_FOLLOW)
}

// cannotLink reports errors after which a copy may succeed.
func cannotLink(err error) bool {
	for _, e := range []error{unix.EXDEV, unix.EPERM, unix.EACCES, unix.EMLINK, unix.ENOSYS, unix.EOPNOTSUPP} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// retrySharing calls f; only Windows refuses to rename over an open file.
func retrySharing(f func() error) error { return f() }

// links returns the number of hard links of an open file.
func links(f *os.File) (uint64, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	return uint64(st.Nlink), os.NewSyscallError("fstat", err)
}
