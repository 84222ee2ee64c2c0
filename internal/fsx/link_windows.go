//go:build windows

package fsx

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"
)

// linkat links the path from as name in the open folder parent.
func linkat(from string, parent *os.File, name string) error {
	return os.Link(from, filepath.Join(parent.Name(), name))
}

// cannotLink reports errors after which a copy may succeed.
func cannotLink(err error) bool {
	for _, e := range []error{windows.ERROR_NOT_SAME_DEVICE, windows.ERROR_ACCESS_DENIED,
		windows.ERROR_TOO_MANY_LINKS, windows.ERROR_NOT_SUPPORTED, windows.ERROR_INVALID_FUNCTION} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// retrySharing retries f for up to a second while a reader has the target open without
// sharing deletion.
func retrySharing(f func() error) error {
	const tries, pause = 100, 10 * time.Millisecond
	var err error
	for range tries {
		if err = f(); !errors.Is(err, windows.ERROR_SHARING_VIOLATION) && !errors.Is(err, windows.ERROR_ACCESS_DENIED) {
			return err
		}
		time.Sleep(pause)
	}
	return err
}

// links returns the number of hard links of an open file.
func links(f *os.File) (uint64, error) {
	var info windows.ByHandleFileInformation
	err := windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info)
	return uint64(info.NumberOfLinks), os.NewSyscallError("GetFileInformationByHandle", err)
}
