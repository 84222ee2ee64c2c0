package fsx

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// ErrLinked is the error of [OpenPlain] for a file with another name: a symbolic link, a
// file below a linked folder, or one of several hard links.
var ErrLinked = errors.New("linked file")

// OpenPlain opens the file name, slash separated, below the folder dir for reading. Neither
// the file nor a folder on the way may be a symbolic link, and the file may have only one
// name, so that untrusted content cannot refer to other files. The checked file is the one
// that is opened, whatever is moved meanwhile.
func OpenPlain(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	refuse := func(err error) error { return &fs.PathError{Op: "open", Path: name, Err: err} }
	var seen fs.FileInfo
	at := ""
	for part := range strings.SplitSeq(name, "/") {
		if at != "" && !seen.IsDir() { // a junction of Windows is neither folder nor link
			return nil, refuse(fmt.Errorf("%s: %w", at, ErrIrregular))
		}
		at = path.Join(at, part)
		if seen, err = root.Lstat(at); err != nil {
			return nil, err
		}
		if seen.Mode()&fs.ModeSymlink != 0 {
			return nil, refuse(fmt.Errorf("%s: %w", at, ErrLinked))
		}
	}
	if !seen.Mode().IsRegular() {
		return nil, refuse(ErrIrregular)
	}
	f, err := root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(seen, opened) {
		err = refuse(errors.New("replaced concurrently"))
	}
	if err == nil {
		var n uint64
		if n, err = links(f); err == nil && n > 1 {
			err = refuse(fmt.Errorf("%w: the file has %d names", ErrLinked, n))
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
