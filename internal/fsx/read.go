package fsx

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// The errors of [ReadFile] that callers tell apart.
var (
	ErrTooLarge  = errors.New("too large")
	ErrIrregular = errors.New("no regular file")
)

// ReadFile returns the content of the regular file at path, which may have at
// most limit bytes. Its size is judged before a byte is read, and no more than
// limit+1 bytes are held, whatever the file grows to meanwhile. A larger file
// is [ErrTooLarge]; a folder, a pipe or a device is [ErrIrregular], and is told
// so without waiting for whoever may write to it.
func ReadFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: ErrIrregular}
	}
	// Another file may stand at path by now: O_NONBLOCK opens even a pipe at
	// once, and what was opened is asked again.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: ErrIrregular}
	}
	if info.Size() > limit {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, info.Size(), limit)}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)}
	}
	return data, nil
}
