package fsx

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// The errors of [ReadFile].
var (
	ErrTooLarge  = errors.New("too large")
	ErrIrregular = errors.New("not a regular file")
)

// ReadFile returns the content of the regular file at path, of at most limit bytes. It
// checks the size before reading, and never holds more than limit+1 bytes, even if the file
// grows. The error for a larger file is [ErrTooLarge], that for a folder, pipe or device
// [ErrIrregular], without waiting for a writer.
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
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: got %d bytes, limit %d", ErrTooLarge, info.Size(), limit)}
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

// ReadHead returns the first n bytes of the regular file at path, or all if it has fewer.
// If it is not a regular file, the error is [ErrIrregular], without waiting.
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

// OpenRegular opens a regular file for reading. Otherwise the error is [ErrIrregular],
// without waiting for a writer.
func OpenRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	irregular := &fs.PathError{Op: "read", Path: path, Err: ErrIrregular}
	if !info.Mode().IsRegular() {
		return nil, irregular
	}
	// The file may have been replaced: O_NONBLOCK opens even a pipe without waiting, and
	// the opened file is checked again.
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
