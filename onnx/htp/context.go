// The package reads the files that hold compiled code for Qualcomm's NPUs,
// without Qualcomm's SDK: QNN context binaries ([ReadContext]), LiteRT models
// compiled ahead of time ([ReadLiteRT]), containers of the converter
// ([ReadDLC]) and ONNX models around a context ([ReadEPContext], [Wrap]).
//
// A context binary holds compiled graphs for one architecture of the HTP, with
// their weights. [ReadContext] reads a header of 40 bytes and the metadata
// after it, a FlatBuffer of some kilobytes; it does not read the blob, which
// may have gigabytes. A [Context] holds the SoC and architecture, the SDK build
// that wrote the file, and the graphs with their inputs and outputs.
//
// The layout is not documented. It was found in files of QAIRT 2.25 to 2.51 and
// compared with what Qualcomm's libQnnSystem reports for the same files. An
// unknown metadata schema is not an error: the header still holds the size, and
// Unread holds the reason for the missing fields.

package htp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Limits of a context.
const (
	headerBytes = 40
	maxMetadata = 64 << 20 // bytes; a large language model in six parts has some hundred kilobytes
	maxGraphs   = 4096
	maxTensors  = 1 << 16 // inputs and outputs of all graphs
	maxRank     = 32
)

// ContextHead is the number of bytes that [IsContext] needs.
const ContextHead = 16

// magic begins every context binary since QAIRT 2.25.
var magic = [ContextHead]byte{3: 2, 7: 3, 15: 1}

// IsContext reports whether a file that begins with head is a context binary.
func IsContext(head []byte) bool { return bytes.HasPrefix(head, magic[:]) }

// Context is a validated context binary, without its weights.
type Context struct {
	Size       int64 // bytes of the file
	Metadata   int64 // bytes of the metadata, which begins at byte 40
	BlobOffset int64 // offset of the blob, which extends to the end of the file
	BlobSize   int64

	// Unread is set if the metadata has an unknown schema: the fields below are
	// then empty.
	Unread string

	Schema  uint32 // of the metadata, 1 or 3
	Backend Backend
	Build   string // of the SDK, such as v2.47.0.260601114230; "" of a CPU context
	Core    Version
	API     Version // of the backend
	Blob    Version // of the blob's format
	SoC     uint32  // QNN's number of the target SoC; 0 if unspecified
	Arch    Arch    // of the HTP; 0 if unspecified
	// SoCText is the SoC's version as text; "" in all files seen so far.
	SoCText string
	// Tensors are shared by the graphs.
	Tensors []Tensor
	Graphs  []Graph
}

// Graph is a compiled graph.
type Graph struct {
	Name    string
	Inputs  []Tensor // in call order
	Outputs []Tensor
	Updates []Tensor // weights that can be replaced
	Memory  *Memory  // nil if unspecified
}

// Memory is the memory use of an HTP graph, in bytes.
type Memory struct {
	SpillFill    uint64 // memory outside the VTCM for spilled intermediate results
	VTCM         uint32 // tightly coupled memory
	Optimization uint32 // optimization level of the compilation
	HVXThreads   uint64 // reserved; 0 if none
	Sized        bool   // the five fields below are set
	IO           uint64 // inputs and outputs
	OpData       uint64 // state of operators
	Constants    uint64 // weights
	DDR          uint64 // intermediate results outside the VTCM
	Shared       uint64 // weights that graphs share
}

// Tensor is an input or an output.
type Tensor struct {
	ID      uint32
	Name    string
	Kind    uint32 // QNN's: 0 written by the application, 1 read by it
	Format  uint32 // of the data; 0 is dense
	DType   DType
	Dims    []uint32
	Dynamic []bool // per dimension; empty if none is
	Version int    // of QNN's structure, 1 or 2
	Quant   Quantization
}

// Elements returns the product of the dimensions, or false beyond 2^62.
func (t Tensor) Elements() (int64, bool) {
	n := uint64(1)
	for _, d := range t.Dims {
		if d != 0 && n > 1<<62/uint64(d) {
			return 0, false
		}
		n *= uint64(d)
	}
	return int64(n), true
}

// Bytes returns the size of the tensor's elements, or false for an unknown
// element type and beyond 2^62.
func (t Tensor) Bytes() (int64, bool) {
	n, ok := t.Elements()
	if !ok {
		return 0, false
	}
	return t.DType.Size(n)
}

// ReadContext reads the context binary of size bytes in r. It returns
// [htp.ErrOther] if the magic does not match.
func ReadContext(r io.ReaderAt, size int64) (*Context, error) {
	c, err := read(r, size)
	if err != nil {
		return nil, fmt.Errorf("qnn context: %w", err)
	}
	return c, nil
}

func read(r io.ReaderAt, size int64) (*Context, error) {
	head := make([]byte, min(headerBytes, max(size, 0)))
	if n, err := r.ReadAt(head, 0); n < len(head) {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	if !IsContext(head) {
		return nil, fmt.Errorf("%w: bad context magic", ErrOther)
	}
	if len(head) < headerBytes {
		return nil, fmt.Errorf("file truncated in the header: got %d bytes, want %d", size, headerBytes)
	}
	metadata, offset, blob := binary.LittleEndian.Uint64(head[16:]), binary.LittleEndian.Uint64(head[24:]), binary.LittleEndian.Uint64(head[32:])
	switch {
	case metadata > maxMetadata:
		return nil, fmt.Errorf("metadata too large: got %d bytes, limit %d", metadata, maxMetadata)
	case metadata > uint64(size)-headerBytes:
		return nil, fmt.Errorf("file truncated in the metadata: got %d bytes, want %d", size, headerBytes+metadata)
	case offset < headerBytes+metadata:
		return nil, fmt.Errorf("blob at byte %d overlaps the metadata, which ends at %d", offset, headerBytes+metadata)
	case offset > uint64(size) || blob > uint64(size)-offset:
		return nil, fmt.Errorf("file truncated in the blob: offset %d, size %d, file size %d", offset, blob, size)
	case blob < uint64(size)-offset:
		return nil, fmt.Errorf("blob ends at byte %d, followed by %d extra bytes", offset+blob, uint64(size)-offset-blob)
	}
	c := &Context{Size: size, Metadata: int64(metadata), BlobOffset: int64(offset), BlobSize: int64(blob)}
	if metadata == 0 {
		c.Unread = "the file has no metadata"
		return c, nil
	}
	b := newBuffer(r, headerBytes, int64(metadata))
	c.metadata(b)
	if err := b.Err(); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return c, nil
}
