// Package context reads QNN context binaries: compiled graphs for one
// architecture of the HTP, with their weights, as QNN's contextGetBinary and
// the tools above it write them. Nothing of Qualcomm's SDK is needed.
//
// [ReadContext] takes an io.ReaderAt and reads a header of 40 bytes and the metadata
// behind it, a FlatBuffer of some kilobytes; of the blob, which may have
// gigabytes, it reads nothing. A [Context] says for which SoC and architecture
// the file is, which build of which SDK wrote it, and the graphs with their
// inputs and outputs.
//
// The layout is not documented. What is read here was found in files of QAIRT
// 2.25 to 2.51 and held against what Qualcomm's own libQnnSystem says of the
// same files. A metadata schema that is not known is no fault: the header still
// tells the size, and Unread tells why the rest is empty.
package blob

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"mm-abi.org/mm/core/htp"
)

// The limits of what is read.
const (
	headerBytes = 40
	maxMetadata = 64 << 20 // bytes; a large language model in six parts has some hundred kilobytes
	maxGraphs   = 4096
	maxTensors  = 1 << 16 // inputs and outputs of all graphs
	maxRank     = 32
)

// ContextHead is how many bytes of a file [IsContext] needs.
const ContextHead = 16

// magic begins every context binary since QAIRT 2.25, whatever its version.
var magic = [ContextHead]byte{3: 2, 7: 3, 15: 1}

// IsContext reports whether a file that begins with head is a context binary.
func IsContext(head []byte) bool { return bytes.HasPrefix(head, magic[:]) }

// Context is a checked context binary. The weights stay where they are.
type Context struct {
	Size       int64 // bytes of the file
	Metadata   int64 // bytes of the metadata, which begins at byte 40
	BlobOffset int64 // where the blob begins; it reaches to the end of the file
	BlobSize   int64

	// Unread says why nothing below is filled: the file has a schema of
	// metadata that is not known. "" where it was read.
	Unread string

	Schema  uint32 // of the metadata, 1 or 3
	Backend htp.Backend
	Build   string // of the SDK, such as v2.47.0.260601114230; "" of a CPU context
	Core    htp.Version
	API     htp.Version // of the backend
	Blob    htp.Version // of the blob's form
	SoC     uint32      // QNN's number of the SoC it was compiled for; 0 where it does not say
	Arch    htp.Arch    // of the HTP; 0 where it does not say
	// SoCText is the SoC's version as a text; "" in all files that were seen.
	SoCText string
	// Tensors are shared by the graphs.
	Tensors []Tensor
	Graphs  []Graph
}

// Graph is one compiled graph.
type Graph struct {
	Name    string
	Inputs  []Tensor // in the order in which they are given
	Outputs []Tensor
	Updates []Tensor // weights that may be exchanged
	Memory  *Memory  // nil where the file does not say
}

// Memory is what a graph of an HTP takes, in bytes.
type Memory struct {
	SpillFill    uint64 // memory outside of the VTCM that intermediate results are moved to
	VTCM         uint32 // of the tightly coupled memory
	Optimisation uint32 // level that it was compiled with
	HVXThreads   uint64 // that are reserved; 0 is none
	Sized        bool   // the five below are known
	IO           uint64 // inputs and outputs
	OpData       uint64 // what operators keep
	Constants    uint64 // weights
	DDR          uint64 // intermediate results outside of the VTCM
	Shared       uint64 // weights that graphs share
}

// Tensor is an input or an output.
type Tensor struct {
	ID      uint32
	Name    string
	Kind    uint32 // QNN's: 0 written by the application, 1 read by it
	Format  uint32 // of the data; 0 is dense
	DType   htp.DType
	Dims    []uint32
	Dynamic []bool // per dimension; empty where none is
	Version int    // of QNN's structure; 1 and 2 are known
	Quant   Quantization
}

// Elements is the product of the dimensions; false beyond 2^62.
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

// Bytes is the size of the tensor's elements; false for an unknown element
// type and beyond 2^62.
func (t Tensor) Bytes() (int64, bool) {
	n, ok := t.Elements()
	if !ok {
		return 0, false
	}
	return t.DType.Size(n)
}

// ReadContext reads the context binary that r holds, size bytes from its start. Bytes
// that do not begin as one are [qnn.ErrOther].
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
		return nil, fmt.Errorf("%w: it does not begin as a QNN context binary does", htp.ErrOther)
	}
	if len(head) < headerBytes {
		return nil, fmt.Errorf("it is cut off: the header has %d bytes, the file %d", headerBytes, size)
	}
	metadata, offset, blob := binary.LittleEndian.Uint64(head[16:]), binary.LittleEndian.Uint64(head[24:]), binary.LittleEndian.Uint64(head[32:])
	switch {
	case metadata > maxMetadata:
		return nil, fmt.Errorf("the metadata has %d bytes, at most %d are read", metadata, maxMetadata)
	case metadata > uint64(size)-headerBytes:
		return nil, fmt.Errorf("it is cut off: the metadata ends at byte %d, the file at %d", headerBytes+metadata, size)
	case offset < headerBytes+metadata:
		return nil, fmt.Errorf("the blob begins at byte %d, within the metadata, which ends at %d", offset, headerBytes+metadata)
	case offset > uint64(size) || blob > uint64(size)-offset:
		return nil, fmt.Errorf("it is cut off: the blob begins at byte %d and has %d, the file has %d", offset, blob, size)
	case blob < uint64(size)-offset:
		return nil, fmt.Errorf("the blob ends at byte %d, and %d bytes follow it", offset+blob, uint64(size)-offset-blob)
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
