//go:build unix

package fsx

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// Accessible returns an error unless this process may create files in the folder dir.
func Accessible(dir string) error {
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return &fs.PathError{Op: "write", Path: dir, Err: err}
	}
	return nil
}
