// Package mmap maps a file into memory for reading, so that weights of many
// gigabytes are paged in as they are touched and shared between processes.
//
// A [Map] is opened with [Open] and closed once; Data aliases the mapping and
// must not be used after Close. The file must not shrink while it is mapped: a
// read past the end of a file faults, and a Go program cannot recover from
// that. Files in a content-addressed store never change; for other files the
// caller accepts that risk.
package mmap

import (
	"errors"
	"fmt"
	"math"
	"os"
	"unsafe"

	"mm-abi.org/mm/internal/fsx"
)

// Map is one file mapped read-only. Writing to Data faults.
type Map struct {
	// Data is the content of the file, of the length it had when it was opened.
	Data []byte

	unmap func() error
}

// Open maps the regular file at path. Data of an empty file is empty.
func Open(path string) (*Map, error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return File(f)
}

// File maps an open regular file, which may be closed afterwards.
func File(f *os.File) (*Map, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("mapping %s: not a regular file", f.Name())
	}
	size := info.Size()
	if size > math.MaxInt {
		return nil, fmt.Errorf("mapping %s: %d bytes exceed the address space", f.Name(), size)
	}
	if size == 0 {
		return &Map{}, nil
	}
	data, unmap, err := mapBytes(f, int(size))
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", f.Name(), err)
	}
	return &Map{Data: data, unmap: unmap}, nil
}

// Release drops the pages of part from the process's memory; part is a slice of
// Data, and later reads of it read the file again. Bytes outside of Data are
// ignored.
func (m *Map) Release(part []byte) {
	if len(part) == 0 || len(m.Data) == 0 {
		return
	}
	base, at := uintptr(unsafe.Pointer(&m.Data[0])), uintptr(unsafe.Pointer(&part[0]))
	if at < base || at+uintptr(len(part)) > base+uintptr(len(m.Data)) {
		return
	}
	page := os.Getpagesize()
	first := (int(at-base) + page - 1) / page * page
	last := (int(at-base) + len(part)) / page * page
	if first < last {
		release(m.Data[first:last])
	}
}

// WillNeed advises the system to read the file ahead.
func (m *Map) WillNeed() {
	if len(m.Data) > 0 {
		willNeed(m.Data)
	}
}

// ErrClosed is returned by a second Close.
var ErrClosed = errors.New("mmap: already closed")

// Close unmaps the file and clears Data. Slices of Data are invalid afterwards.
func (m *Map) Close() error {
	if m.Data == nil && m.unmap == nil {
		return nil // an empty file was never mapped
	}
	if m.unmap == nil {
		return ErrClosed
	}
	unmap := m.unmap
	m.Data, m.unmap = []byte{}, nil
	return unmap()
}
