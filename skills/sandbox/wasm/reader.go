package wasm

import (
	"fmt"

	"mm-abi.org/mm/skills/sandbox"
)

// reader reads the bytes of a module. After the first error, every read
// returns zero and consumes nothing.
type reader struct {
	data []byte
	pos  int
	err  error
	refs []uint32 // functions whose reference is taken
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = sandbox.Refuse("invalid module at byte %d of a section: %s", r.pos, fmt.Sprintf(format, args...))
	}
}

func (r *reader) left() int { return len(r.data) - r.pos }

func (r *reader) byte() byte {
	if r.err != nil || r.pos >= len(r.data) {
		r.fail("unexpected end")
		return 0
	}
	b := r.data[r.pos]
	r.pos++
	return b
}

// take returns the next n bytes.
func (r *reader) take(n uint32) []byte {
	if r.err != nil || uint64(n) > uint64(r.left()) {
		r.fail("got %d bytes, want %d", r.left(), n)
		return nil
	}
	b := r.data[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b
}

// u32 reads an unsigned LEB128 number of at most 32 bits (WebAssembly core
// specification §5.2.2).
func (r *reader) u32() uint32 {
	var v uint32
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		if shift == 28 && b > 0x0f {
			break
		}
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
	r.fail("LEB128 number too long")
	return 0
}

// signed reads a signed LEB128 number of at most the given bits and returns
// its low 64.
func (r *reader) signed(bits int) int64 {
	var v int64
	most := (bits + 6) / 7
	for i, shift := 0, 0; i < most; i, shift = i+1, shift+7 {
		b := r.byte()
		v |= int64(b&0x7f) << shift
		if b < 0x80 {
			if b&0x40 != 0 && shift+7 < 64 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	r.fail("LEB128 number too long")
	return 0
}

// count reads the number of items that follow, each of at least size bytes.
// More than most, or than fit, is an error before anything is allocated.
func (r *reader) count(what string, most uint32, size int) uint32 {
	n := r.u32()
	if r.err == nil && (n > most || uint64(n)*uint64(size) > uint64(r.left())) {
		r.fail("too many %[2]s: got %[1]d, limit %[3]d, room for %[4]d", n, what, most, r.left()/size)
		return 0
	}
	return n
}

// name reads a string.
func (r *reader) name() string { return string(r.take(r.count("bytes of a name", maxName, 1))) }
