package cas

import (
	"errors"
	"fmt"
	"syscall"

	"mm-abi.org/mm/internal/fsx"
)

// FullError reports a file system without the space that an operation needs, before
// anything was written.
type FullError struct {
	Dir        string
	Need, Free int64 // bytes
}

// Error names the folder and both sizes.
func (e *FullError) Error() string {
	return fmt.Sprintf("not enough free space in %s: need %s, got %s", e.Dir, fsx.FormatSize(e.Need), fsx.FormatSize(e.Free))
}

// Unwrap returns the system's error for a full disk.
func (e *FullError) Unwrap() error { return syscall.ENOSPC }

// IsFull reports whether err is one of a full disk or an exhausted quota.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
