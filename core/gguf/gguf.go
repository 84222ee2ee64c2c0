// Package gguf reads and writes GGUF, the single-file format of llama.cpp:
// metadata (key and typed value), tensor descriptions, and one aligned blob of
// tensor data. The layout is that of ggml/docs/gguf.md, version 3, little
// endian; version 2 has the same layout and is read as well.
//
// The way of a file: [Open] maps it, or [Read] takes any io.ReaderAt; the
// header is parsed and checked as a whole, so that a *[File] exists only for a
// file whose every name, count, dimension, type and byte range is sound.
// [Get] takes metadata by key and enforces its type; [File.Tensor] gives a
// tensor whose Data aliases the mapping. [Write] is the reverse: metadata in
// the order given, tensors streamed, the same bytes for the same input.
//
// The reader is stricter than llama.cpp's: tensors must follow each other
// without gap or overlap, nothing may follow the last one, booleans are 0 or
// 1. It allocates nothing from a declared count before the bytes left in the
// file have been shown to hold that many elements.
package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"mm-abi.org/mm/core/mmap"
	"mm-abi.org/mm/core/tensor"
)

// The format's constants.
const (
	magic            = "GGUF"
	versionLatest    = 3
	defaultAlignment = 32
)

// The limits of what is read. Each is far above what real models need.
const (
	maxKeys        = 1 << 16 // metadata entries
	maxTensors     = 1 << 17 // tensors
	maxKeyBytes    = 1<<16 - 1
	maxTensorName  = 63      // bytes; GGML_MAX_NAME less its NUL
	maxDims        = 4       // GGML_MAX_DIMS
	maxStringBytes = 1 << 30 // one metadata string
	maxElements    = 1 << 30 // one metadata array
	maxAlignment   = 1 << 20 // bytes
)

// Tensor describes one tensor of a file.
type Tensor struct {
	Name string
	Type tensor.Type
	// Dims are the dimensions in GGUF's order: Dims[0] is the contiguous one
	// (the columns of a matrix), at least one of them, each at least 1.
	Dims []int
	// Offset is where the data begins, in bytes from the start of the file.
	Offset int64
	// Size is the length of the data in bytes.
	Size int64
	// Data is the tensor's bytes when the file is mapped or in memory, and
	// nil when it was opened by Read. It must not be written to, nor used
	// after the file's Close.
	Data []byte
}

// Elements is the number of elements: the product of the dimensions.
func (t Tensor) Elements() int {
	n := 1
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// Rows is the number of rows: the product of all dimensions but the first.
func (t Tensor) Rows() int { return t.Elements() / t.Dims[0] }

// File is a checked GGUF file. Its slices must not be changed.
type File struct {
	// Version is 2 or 3.
	Version uint32
	// Alignment is what every tensor's offset is a multiple of, in bytes.
	Alignment int
	// KVs is the metadata in the order of the file.
	KVs []KV
	// Tensors lists the tensors in the order of the file.
	Tensors []Tensor

	keys  map[string]int // key to index in KVs
	names map[string]int // tensor name to index in Tensors
	src   io.ReaderAt
	m     *mmap.Map // nil unless opened by Open
}

// Open maps the file at path and checks it. Close gives the mapping back.
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

// WillNeed tells the system that all of a file that was opened is about to be
// read.
func (f *File) WillNeed() {
	if f.m != nil {
		f.m.WillNeed()
	}
}

// Parse checks a file that lies in memory. Tensor data aliases b.
func Parse(b []byte) (*File, error) {
	f, err := parse(&cursor{buf: b, size: int64(len(b))})
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	f.src = bytes.NewReader(b)
	for i := range f.Tensors {
		t := &f.Tensors[i]
		t.Data = b[t.Offset : t.Offset+t.Size : t.Offset+t.Size]
	}
	return f, nil
}

// Read checks the file of the given size in r, reading its header only.
// Tensor data stays where it is: see [File.Section].
func Read(r io.ReaderAt, size int64) (*File, error) {
	f, err := parse(&cursor{src: r, size: size})
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	f.src = r
	return f, nil
}

// Close gives the mapping back; Data of the tensors is invalid afterwards.
// It does nothing for files that were not opened by Open.
func (f *File) Close() error {
	if f.m == nil {
		return nil
	}
	return f.m.Close()
}

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.names[name]
	if !ok {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

// Names lists the names of the tensors in the order of the file.
func (f *File) Names() []string {
	names := make([]string, len(f.Tensors))
	for i, t := range f.Tensors {
		names[i] = t.Name
	}
	return names
}

// Section reads the data of one of the file's tensors, however the file was
// opened.
func (f *File) Section(t Tensor) *io.SectionReader {
	return io.NewSectionReader(f.src, t.Offset, t.Size)
}
