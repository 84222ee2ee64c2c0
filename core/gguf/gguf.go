// Package gguf reads and writes GGUF, the format of llama.cpp: metadata (key and
// typed value), tensor descriptions, and one aligned blob of tensor data, in one
// file or in pieces. The layout is that of ggml/docs/gguf.md, version 3, little
// endian; version 2 has the same layout and is also read.
//
// [Open] maps a file, and [Read] accepts any io.ReaderAt; the header is parsed
// and validated completely, so that every name, count, dimension, type and byte
// range of a *[File] is valid. [Get] returns metadata by key and enforces its
// type; [File.Tensor] returns a tensor whose Data aliases the mapping. [Write]
// writes metadata in the given order and streams tensors; the same input gives
// the same bytes.
//
// The reader is stricter than llama.cpp's: tensors must be contiguous up to the
// end of the file, and booleans are 0 or 1. It never allocates for a declared
// count unless the remaining bytes can hold that many elements.
package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"mm-abi.org/mm/core/mmap"
	"mm-abi.org/mm/core/tensor"
)

// Constants of the format.
const (
	magic            = "GGUF"
	versionLatest    = 3
	defaultAlignment = 32
)

// Limits of the reader. Each is far above the needs of real models.
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

// Tensor describes a tensor of a file.
type Tensor struct {
	Name string
	Type tensor.Type
	// Dims are the dimensions in GGUF's order: Dims[0] is the contiguous one
	// (the columns of a matrix). There is at least one, and each is at least 1.
	Dims []int
	// Offset is the offset of the data from the start of its file.
	Offset int64
	// Size is the length of the data in bytes.
	Size int64
	// Data holds the tensor's bytes if the file is mapped or in memory, and is
	// nil after Read. It must not be modified, nor used after the file's Close.
	Data []byte

	piece int // index of its file among the model's pieces
}

// Elements returns the number of elements: the product of the dimensions.
func (t Tensor) Elements() int {
	n := 1
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// Rows returns the number of rows: the product of all dimensions but the first.
func (t Tensor) Rows() int { return t.Elements() / t.Dims[0] }

// File is a validated GGUF file. Its slices must not be modified.
type File struct {
	// Version is 2 or 3.
	Version uint32
	// Alignment is the alignment of every tensor's offset, in bytes.
	Alignment int
	// KVs is the metadata in the order of the file.
	KVs []KV
	// Tensors lists the tensors in the order of the file.
	Tensors []Tensor

	keys  map[string]int // key to index in KVs
	names map[string]int // tensor name to index in Tensors
	src   []io.ReaderAt  // one for each piece
	maps  []*mmap.Map    // empty unless opened by Open
	size  int64          // of all pieces
}

// Size returns the number of bytes of the file, or of all pieces of the model.
func (f *File) Size() int64 { return f.size }

// Pieces returns the number of files.
func (f *File) Pieces() int { return len(f.src) }

// Open maps and validates the file at path; if it is the first piece of a model,
// NAME-00001-of-00003.gguf, all pieces. Close unmaps them.
func Open(path string) (*File, error) {
	f, err := openOne(path)
	if err != nil {
		return nil, err
	}
	paths, err := f.piecesOf(path)
	switch {
	case err != nil:
	case len(paths) == 1:
		err = f.single()
	default:
		err = f.openRest(paths)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return f, nil
}

// WillNeed advises the system that the whole mapped file is about to be read.
func (f *File) WillNeed() {
	for _, m := range f.maps {
		m.WillNeed()
	}
}

// Release drops the pages of data, a part of a tensor's Data, from memory. It
// does nothing unless the file is mapped.
func (f *File) Release(data []byte) {
	for _, m := range f.maps {
		m.Release(data)
	}
}

// Parse validates a file in memory, and refuses a piece of a model. Tensor data
// aliases b.
func Parse(b []byte) (*File, error) {
	f, err := parseOne(b)
	if err != nil {
		return nil, err
	}
	if err := f.single(); err != nil {
		return nil, err
	}
	return f, nil
}

func parseOne(b []byte) (*File, error) {
	f, err := parse(&cursor{buf: b, size: int64(len(b))})
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	f.src, f.size = []io.ReaderAt{bytes.NewReader(b)}, int64(len(b))
	for i := range f.Tensors {
		t := &f.Tensors[i]
		t.Data = b[t.Offset : t.Offset+t.Size : t.Offset+t.Size]
	}
	return f, nil
}

// Read validates the file of the given size in r, reading only its header, and
// refuses a piece of a model. [File.Section] reads tensor data.
func Read(r io.ReaderAt, size int64) (*File, error) {
	f, err := readOne(r, size)
	if err != nil {
		return nil, err
	}
	if err := f.single(); err != nil {
		return nil, err
	}
	return f, nil
}

func readOne(r io.ReaderAt, size int64) (*File, error) {
	f, err := parse(&cursor{src: r, size: size})
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	f.src, f.size = []io.ReaderAt{r}, size
	return f, nil
}

// Close unmaps the file; Data of the tensors is invalid afterwards. It does
// nothing unless the file was opened by Open.
func (f *File) Close() error {
	var errs []error
	for _, m := range f.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// Tensor returns a tensor by name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.names[name]
	if !ok {
		return Tensor{}, false
	}
	return f.Tensors[i], true
}

// Names returns the names of the tensors in file order.
func (f *File) Names() []string {
	names := make([]string, len(f.Tensors))
	for i, t := range f.Tensors {
		names[i] = t.Name
	}
	return names
}

// Section returns a reader of a tensor's data, however the file was opened.
func (f *File) Section(t Tensor) *io.SectionReader {
	return io.NewSectionReader(f.src[t.piece], t.Offset, t.Size)
}
