package home

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
)

// CanWrite returns an error unless files can be created in the folder at path; if
// it is missing, in the parent that it would be created in.
func CanWrite(path string) error {
	for dir := path; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			continue
		}
		if err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrExist}
		}
		if err != nil {
			return err
		}
		if err := fsx.Accessible(dir); err != nil || dir == path {
			return err
		}
		return fsx.Writable(dir) // a file system such as /proc refuses new files to root as well
	}
}
