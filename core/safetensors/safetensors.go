// Package safetensors reads and writes safetensors, Hugging Face's file format
// for named arrays: a length (u64, little endian), a JSON header of that many
// bytes with each tensor's dtype, shape and byte range, and one block of data.
// The format is that of the README of huggingface/safetensors.
//
// [Open] maps a file, [Parse] reads one in memory. Both verify the whole header,
// so a *[File] exists only for a file whose ranges have no gap or overlap and
// cover the data to the last byte.
// [Write] streams tensors; its output does not depend on their order.
package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"mm-abi.org/mm/core/mmap"
	"mm-abi.org/mm/core/tensor"
)

// Limits on a header.
const (
	maxHeader  = 100_000_000 // bytes; the reference implementation's
	maxTensors = 1 << 20
	maxDims    = 32
)

// DType is an element type, spelled as in the header.
type DType string

// The element types with an integral number of bytes.
const (
	BOOL   DType = "BOOL"
	U8     DType = "U8"
	I8     DType = "I8"
	F8E4M3 DType = "F8_E4M3"
	F8E5M2 DType = "F8_E5M2"
	F8E8M0 DType = "F8_E8M0"
	U16    DType = "U16"
	I16    DType = "I16"
	F16    DType = "F16"
	BF16   DType = "BF16"
	U32    DType = "U32"
	I32    DType = "I32"
	F32    DType = "F32"
	U64    DType = "U64"
	I64    DType = "I64"
	F64    DType = "F64"
	C64    DType = "C64"
)

// bits returns the size of one element; 0 for an unknown type.
func (d DType) bits() uint64 {
	switch d {
	case "F4":
		return 4
	case "F6_E2M3", "F6_E3M2":
		return 6
	case BOOL, U8, I8, F8E4M3, F8E5M2, F8E8M0:
		return 8
	case U16, I16, F16, BF16:
		return 16
	case U32, I32, F32:
		return 32
	case U64, I64, F64, C64:
		return 64
	}
	return 0
}

// Type returns the same element type in package tensor; false if there is none.
func (d DType) Type() (tensor.Type, bool) {
	switch d {
	case F32:
		return tensor.F32, true
	case F16:
		return tensor.F16, true
	case BF16:
		return tensor.BF16, true
	case I8:
		return tensor.I8, true
	case I16:
		return tensor.I16, true
	case I32:
		return tensor.I32, true
	case I64:
		return tensor.I64, true
	case F64:
		return tensor.F64, true
	}
	return 0, false
}

// Tensor describes one tensor of a file.
type Tensor struct {
	Name  string
	DType DType
	// Shape lists the dimensions, outermost first; empty for a scalar. A
	// dimension may be 0.
	Shape []int
	// Offset is the position of the data in the file, in bytes.
	Offset int64
	// Size is the length of the data in bytes.
	Size int64
	// Data holds the tensor's bytes, little endian, if the file is mapped or in
	// memory; nil if it was opened by Read. It must not be written to, nor used
	// after the file's Close.
	Data []byte
}

// File is a verified safetensors file. Its fields must not be changed.
type File struct {
	// Tensors are in the order of their data.
	Tensors []Tensor
	// Metadata is the header's __metadata__; nil if there is none.
	Metadata map[string]string

	names map[string]int
	src   io.ReaderAt
	m     *mmap.Map
}

// Open maps the file at path and verifies it. Close unmaps it.
func Open(path string) (*File, error) {
	m, err := mmap.Open(path)
	if err != nil {
		return nil, err
	}
	f, err := Parse(m.Data)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), m.Close())
	}
	f.m = m
	return f, nil
}

// Parse verifies a file in memory. Tensor data aliases b.
func Parse(b []byte) (*File, error) {
	n, err := headerSize(b, int64(len(b)))
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	f, err := parse(b[8:8+n], int64(len(b)))
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	f.src = bytes.NewReader(b)
	for i := range f.Tensors {
		t := &f.Tensors[i]
		t.Data = b[t.Offset : t.Offset+t.Size : t.Offset+t.Size]
	}
	return f, nil
}

// Read verifies the header of a file of size bytes. The tensors' data are left to
// Section.
func Read(r io.ReaderAt, size int64) (*File, error) {
	head := make([]byte, max(0, min(size, 512))) // enough to name a file of another kind
	if _, err := io.ReadFull(io.NewSectionReader(r, 0, size), head); err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	n, err := headerSize(head, size)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	head = make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(r, 8, n), head); err != nil {
		return nil, fmt.Errorf("safetensors: header: %w", err)
	}
	f, err := parse(head, size)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	f.src = r
	return f, nil
}

// Close unmaps the file; Data of the tensors is invalid afterwards. For a file
// that was not opened by Open, Close does nothing.
func (f *File) Close() error {
	if f.m == nil {
		return nil
	}
	return f.m.Close()
}

// Tensor returns the tensor with the given name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.names[name]
	if !ok {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

// Section returns a reader of the data of one of the file's tensors, for files
// opened in any way.
func (f *File) Section(t Tensor) *io.SectionReader {
	return io.NewSectionReader(f.src, t.Offset, t.Size)
}
