// Package flat reads FlatBuffers that nobody vouches for, without a schema's
// generated code: a [Table] gives its fields by their numbers.
//
// The library of FlatBuffers' authors trusts its bytes: it has no verifier for
// Go, and an offset out of range panics. Here every offset is checked before
// it is followed, a [Buffer] remembers the first fault and gives zero values
// from then on, and a budget bounds what a small file may unfold to, for
// nothing keeps a million entries of a vector from naming one table. The bytes
// are read in pages as they are needed, so that a file with gigabytes of
// weights in it costs no more memory than a small one.
package blob

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// The limits of what is read.
const (
	pageBytes = 4 << 10
	pages     = 64
	// MaxText is the longest text, in bytes.
	maxText = 1 << 16
	// Budget is what the tables, texts and vectors that are read may take
	// together, in bytes of memory.
	budget = 64 << 20
	// tableCost is what reading a table counts for.
	tableCost = 256
)

// ErrMalformed is in the errors about bytes that are no FlatBuffer.
var ErrMalformed = errors.New("malformed")

// Buffer is a FlatBuffer: size bytes of src from base on.
type buffer struct {
	src        io.ReaderAt
	base, size int64
	budget     int64
	err        error
	cache      [pages]page
}

type page struct {
	at   int64 // offset in the buffer plus 1; 0 for an empty place
	data []byte
}

// New is the buffer that lies at base in src and has size bytes. No offset of
// a FlatBuffer is above 2^32, so that of a larger file the rest is not seen.
func newBuffer(src io.ReaderAt, base, size int64) *buffer {
	return &buffer{src: src, base: base, size: min(size, math.MaxUint32), budget: budget}
}

// Err is the first fault that was met.
func (b *buffer) Err() error { return b.err }

// Fail makes err the buffer's fault, if it has none yet.
func (b *buffer) Fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *buffer) malformed(format string, args ...any) {
	b.Fail(fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...)))
}

// spend takes n bytes out of the budget.
func (b *buffer) spend(n int64) bool {
	if b.err == nil && n > b.budget {
		b.malformed("the structure unfolds to more than %d bytes", int64(budget))
	}
	if b.err != nil {
		return false
	}
	b.budget -= n
	return true
}

// within checks that n bytes lie at offset at.
func (b *buffer) within(at, n int64) bool {
	if b.err != nil {
		return false
	}
	if at < 0 || n < 0 || at > b.size || n > b.size-at {
		b.malformed("%d bytes at %d are beyond the %d that there are", n, at, b.size)
		return false
	}
	return true
}

// at gives the n bytes at an offset, n at most a page; nil after a fault. They
// hold until the next call.
func (b *buffer) at(at, n int64) []byte {
	if !b.within(at, n) {
		return nil
	}
	start := at &^ (pageBytes - 1)
	if at+n > start+pageBytes { // across two pages
		out := make([]byte, n)
		if !b.read(out, at) {
			return nil
		}
		return out
	}
	p := &b.cache[start/pageBytes%pages]
	if p.at != start+1 {
		if p.data == nil {
			p.data = make([]byte, pageBytes)
		}
		p.at = 0
		data := p.data[:min(pageBytes, b.size-start)]
		if !b.read(data, start) {
			return nil
		}
		p.at = start + 1
	}
	return p.data[at-start : at-start+n]
}

// read fills dst from an offset.
func (b *buffer) read(dst []byte, at int64) bool {
	if n, err := b.src.ReadAt(dst, b.base+at); n < len(dst) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		b.Fail(fmt.Errorf("reading %d bytes at %d: %w", len(dst), b.base+at, err))
		return false
	}
	return true
}

func (b *buffer) u16(at int64) uint16 {
	if x := b.at(at, 2); x != nil {
		return binary.LittleEndian.Uint16(x)
	}
	return 0
}

func (b *buffer) u32(at int64) uint32 {
	if x := b.at(at, 4); x != nil {
		return binary.LittleEndian.Uint32(x)
	}
	return 0
}

// follow gives where the offset at a place leads, which is always ahead.
func (b *buffer) follow(at int64) int64 {
	n := b.u32(at)
	if b.err == nil && n == 0 {
		b.malformed("the offset at %d is 0", at)
	}
	return at + int64(n)
}

// Identifier is the four bytes behind the root's offset, which say what a file
// is.
func (b *buffer) Identifier() string { return string(b.at(4, 4)) }

// Root is the table that the buffer begins with.
func (b *buffer) Root() table { return b.table(b.follow(0)) }

// table checks the table at a place and its list of fields.
func (b *buffer) table(at int64) table {
	if !b.spend(tableCost) || !b.within(at, 4) {
		return table{b: b}
	}
	list := at - int64(int32(b.u32(at)))
	t := table{b: b, pos: at, list: list}
	if !b.within(list, 4) {
		return table{b: b}
	}
	length, size := int64(b.u16(list)), int64(b.u16(list+2))
	if length < 4 || length%2 != 0 || size < 4 || !b.within(list, length) || !b.within(at, size) {
		b.malformed("the table at %d has a list of fields of %d bytes and %d bytes itself", at, length, size)
		return table{b: b}
	}
	t.fields, t.size = int(length-4)/2, size
	return t
}
