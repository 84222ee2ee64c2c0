package torch

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train/dataset"
)

// array writes a one-dimensional .npy file (numpy.lib.format, version 1) in
// parts, so that its length is not limited by memory. The first error stays.
type array struct {
	w   *bufio.Writer
	err error
}

// newArray begins an array of n elements of a type such as <i8.
func newArray(w io.Writer, dtype string, n int) *array {
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", dtype, n)
	head += strings.Repeat(" ", 63-(10+len(head))%64) + "\n" // data begins at a multiple of 64
	a := &array{w: bufio.NewWriterSize(w, 1<<16)}
	a.bytes([]byte("\x93NUMPY\x01\x00"))
	a.bytes(binary.LittleEndian.AppendUint16(nil, uint16(len(head))))
	a.bytes([]byte(head))
	return a
}

func (a *array) bytes(b []byte) {
	if a.err == nil {
		_, a.err = a.w.Write(b)
	}
}

func (a *array) int64(v int64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(v))
	a.bytes(b[:])
}

func (a *array) flush() error {
	if a.err == nil {
		a.err = a.w.Flush()
	}
	return a.err
}

// text writes the parts of tokens as NAME_tokens.npy, NAME_documents.npy and
// NAME_context.npy.
func text(folder, name string, p dataset.Parts) error {
	dtype := "<u2"
	if p.Width == 4 {
		dtype = "<i4"
	}
	write := func(part, dtype string, n int, fill func(*array)) error {
		return fsx.Replace(filepath.Join(folder, name+"_"+part+".npy"), 0o644, func(w io.Writer) error {
			a := newArray(w, dtype, n)
			fill(a)
			return a.flush()
		})
	}
	if err := write("tokens", dtype, len(p.IDs)/p.Width, func(a *array) { a.bytes(p.IDs) }); err != nil {
		return err
	}
	if err := write("documents", "<i8", len(p.Starts), func(a *array) {
		for _, at := range p.Starts {
			a.int64(at)
		}
	}); err != nil {
		return err
	}
	return write("context", "<i8", 3*len(p.Context), func(a *array) {
		for _, span := range p.Context {
			for _, v := range span {
				a.int64(v)
			}
		}
	})
}
