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
	f, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
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

// ReadHead returns the first n bytes of the regular file at path, fewer where it
// has fewer. What is no regular file is [ErrIrregular], told without waiting.
func ReadHead(path string, n int) ([]byte, error) {
	f, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, n)
	m, err := io.ReadFull(f, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return head[:m], err
}

// OpenRegular opens a regular file for reading. What is none is [ErrIrregular],
// told without waiting for whoever may write to it.
func OpenRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	irregular := &fs.PathError{Op: "read", Path: path, Err: ErrIrregular}
	if !info.Mode().IsRegular() {
		return nil, irregular
	}
	// Another file may stand at path by now: O_NONBLOCK opens even a pipe at
	// once, and what was opened is asked again.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = irregular
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
