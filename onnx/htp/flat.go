// FlatBuffers are read without a schema's generated code: a [table] returns
// fields by number. FlatBuffers' Go library trusts its bytes: it has no
// verifier, and an offset out of range panics. Here every offset is checked
// before use, a [buffer] keeps the first error and returns zero values from
// then on, and a budget bounds the expansion of a small file: a million entries
// of a vector may name one table. The bytes are read in pages on demand, so
// gigabytes of weights do not cost memory.

package htp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Limits of a FlatBuffer.
const (
	pageBytes = 4 << 10
	pages     = 64
	// maxText is the limit of a string, in bytes.
	maxText = 1 << 16
	// budget is the limit of all tables, strings and vectors together, in bytes
	// of memory.
	budget = 64 << 20
	// tableCost is the cost of reading a table.
	tableCost = 256
)

// ErrMalformed reports an invalid FlatBuffer.
var ErrMalformed = errors.New("malformed")

// buffer is a FlatBuffer: size bytes of src from base on.
type buffer struct {
	src        io.ReaderAt
	base, size int64
	budget     int64
	err        error
	cache      [pages]page
}

type page struct {
	at   int64 // offset in the buffer plus 1; 0 if empty
	data []byte
}

// newBuffer returns the buffer of size bytes at base in src. FlatBuffer offsets
// stay below 2^32, so the rest of a larger file is ignored.
func newBuffer(src io.ReaderAt, base, size int64) *buffer {
	return &buffer{src: src, base: base, size: min(size, math.MaxUint32), budget: budget}
}

// Err returns the first error.
func (b *buffer) Err() error { return b.err }

// Fail records err unless an error is recorded already.
func (b *buffer) Fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *buffer) malformed(format string, args ...any) {
	b.Fail(fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...)))
}

// spend takes n bytes from the budget.
func (b *buffer) spend(n int64) bool {
	if b.err == nil && n > b.budget {
		b.malformed("structure unfolds to more than %d bytes", int64(budget))
	}
	if b.err != nil {
		return false
	}
	b.budget -= n
	return true
}

// within checks that n bytes at offset at are in range.
func (b *buffer) within(at, n int64) bool {
	if b.err != nil {
		return false
	}
	if at < 0 || n < 0 || at > b.size || n > b.size-at {
		b.malformed("%d bytes at %d exceed the buffer of %d", n, at, b.size)
		return false
	}
	return true
}

// at returns the n bytes at an offset, n at most a page, or nil after an error.
// They are valid until the next call.
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

// follow returns the target of the forward offset at a position.
func (b *buffer) follow(at int64) int64 {
	n := b.u32(at)
	if b.err == nil && n == 0 {
		b.malformed("zero offset at %d", at)
	}
	return at + int64(n)
}

// Identifier returns the four bytes after the root offset, the file's
// identifier.
func (b *buffer) Identifier() string { return string(b.at(4, 4)) }

// Root returns the root table.
func (b *buffer) Root() table { return b.table(b.follow(0)) }

// table checks the table at an offset and its vtable.
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
		b.malformed("bad table at %d: vtable of %d bytes, table of %d bytes", at, length, size)
		return table{b: b}
	}
	t.fields, t.size = int(length-4)/2, size
	return t
}
