package coreml

import (
	"bytes"
	"encoding/binary"
	"io"
)

// The layout of the file of weights: a header, and for each blob a header and its
// data, both aligned.
const (
	weightAlign   = 64
	weightMagic   = 0xDEADBEEF
	weightVersion = 2
)

// weights are the blobs of weight.bin in their order.
type weights struct {
	blobs []weight
	size  uint64
}

type weight struct {
	dtype DType
	data  []byte
	at    uint64 // offset of the blob's header
}

// blobTypes are the numbers of the types in weight.bin.
var blobTypes = map[DType]uint32{Float16: 1, Float32: 2, Uint8: 3, Int8: 4, Int4: 8}

// add appends a blob and returns the offset of its header, which is never 0. Equal
// data are stored once.
func (w *weights) add(t DType, data []byte) uint64 {
	for _, b := range w.blobs {
		if b.dtype == t && bytes.Equal(b.data, data) {
			return b.at
		}
	}
	at := aligned(max(w.size, weightAlign))
	w.blobs = append(w.blobs, weight{t, data, at})
	w.size = at + weightAlign + uint64(len(data))
	return at
}

func aligned(n uint64) uint64 { return (n + weightAlign - 1) / weightAlign * weightAlign }

// writeTo writes the file.
func (w *weights) writeTo(to io.Writer) error {
	head := make([]byte, weightAlign)
	binary.LittleEndian.PutUint32(head, uint32(len(w.blobs)))
	binary.LittleEndian.PutUint32(head[4:], weightVersion)
	if _, err := to.Write(head); err != nil {
		return err
	}
	at := uint64(weightAlign)
	for _, b := range w.blobs {
		head := make([]byte, b.at-at+weightAlign)
		h := head[b.at-at:]
		binary.LittleEndian.PutUint32(h, weightMagic)
		binary.LittleEndian.PutUint32(h[4:], blobTypes[b.dtype])
		binary.LittleEndian.PutUint64(h[8:], uint64(len(b.data)))
		binary.LittleEndian.PutUint64(h[16:], b.at+weightAlign)
		if _, err := to.Write(head); err != nil {
			return err
		}
		if _, err := to.Write(b.data); err != nil {
			return err
		}
		at = b.at + weightAlign + uint64(len(b.data))
	}
	return nil
}
