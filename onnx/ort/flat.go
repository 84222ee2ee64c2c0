package ort

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errMalformed reports an invalid FlatBuffer.
var errMalformed = errors.New("malformed")

// budget is the limit of the structures that a file unfolds to, in bytes of strings and
// vectors and in tables: a million entries may name one table.
const (
	budget    = 1 << 26
	tableCost = 64
)

// buffer is a FlatBuffer whose offsets are checked before use. It keeps the first error
// and returns zero values from then on.
type buffer struct {
	data []byte
	left int
	err  error
}

// fail records the first error.
func (b *buffer) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf("%w: %s", errMalformed, fmt.Sprintf(format, args...))
	}
}

// spend takes n from the budget.
func (b *buffer) spend(n int) bool {
	if b.left -= n; b.left < 0 {
		b.left = 0
		b.fail("structure of more than %d bytes", budget)
	}
	return b.err == nil
}

// at returns n bytes, nil after an error.
func (b *buffer) at(at, n int) []byte {
	if b.err == nil && (at < 0 || n < 0 || at > len(b.data) || n > len(b.data)-at) {
		b.fail("%d bytes at %d exceed the file of %d", n, at, len(b.data))
	}
	if b.err != nil {
		return nil
	}
	return b.data[at : at+n : at+n]
}

func (b *buffer) u32(at int) int {
	if x := b.at(at, 4); x != nil {
		return int(binary.LittleEndian.Uint32(x))
	}
	return 0
}

func (b *buffer) u16(at int) int {
	if x := b.at(at, 2); x != nil {
		return int(binary.LittleEndian.Uint16(x))
	}
	return 0
}

// table is a table of a buffer. The zero value has no fields.
type table struct {
	b         *buffer
	pos, list int // of the table and of its list of fields
	size      int // of the list
}

// table returns the table that the offset at a position leads to.
func (b *buffer) table(at int) table {
	if !b.spend(tableCost) {
		return table{}
	}
	pos := at + b.u32(at)
	x := b.at(pos, 4)
	if x == nil {
		return table{}
	}
	list := pos - int(int32(binary.LittleEndian.Uint32(x)))
	size := b.u16(list)
	if b.at(list, size); b.err != nil || size < 4 {
		b.fail("invalid table at %d", pos)
		return table{}
	}
	return table{b, pos, list, size}
}

// field returns the position of a field by its slot, 0 if it is missing.
func (t table) field(slot int) int {
	at := 4 + 2*slot
	if t.b == nil || t.b.err != nil || at+2 > t.size {
		return 0
	}
	if off := t.b.u16(t.list + at); off != 0 {
		return t.pos + off
	}
	return 0
}

// int32 returns a number of 32 bits, 0 if it is missing.
func (t table) int32(slot int) int32 {
	if at := t.field(slot); at != 0 {
		return int32(t.b.u32(at))
	}
	return 0
}

// int64 returns a number of 64 bits, or absent.
func (t table) int64(slot int, absent int64) int64 {
	if at := t.field(slot); at != 0 {
		if x := t.b.at(at, 8); x != nil {
			return int64(binary.LittleEndian.Uint64(x))
		}
	}
	return absent
}

// byte returns a number of 8 bits, 0 if it is missing.
func (t table) byte(slot int) byte {
	if at := t.field(slot); at != 0 {
		if x := t.b.at(at, 1); x != nil {
			return x[0]
		}
	}
	return 0
}

// table returns a table, without fields if it is missing.
func (t table) table(slot int) table {
	if at := t.field(slot); at != 0 {
		return t.b.table(at)
	}
	return table{}
}

// vector returns the position of the entries of a vector and their number.
func (t table) vector(slot, size int) (at, n int) {
	if at = t.field(slot); at == 0 {
		return 0, 0
	}
	at += t.b.u32(at)
	n = t.b.u32(at)
	if t.b.err == nil && n > len(t.b.data)/size {
		t.b.fail("vector of %d entries at %d", n, at)
	}
	if t.b.at(at+4, n*size); t.b.err != nil {
		return 0, 0
	}
	return at + 4, n
}

// raw returns a vector of bytes, which aliases the file.
func (t table) raw(slot int) []byte {
	at, n := t.vector(slot, 1)
	if at == 0 {
		return nil
	}
	return t.b.at(at, n)
}

// text returns a string.
func (t table) text(slot int) string {
	x := t.raw(slot)
	if t.b == nil || !t.b.spend(1+len(x)) {
		return ""
	}
	return string(x)
}

// each calls f for the position of each entry of a vector of offsets.
func (t table) each(slot int, f func(at int)) {
	at, n := t.vector(slot, 4)
	if t.b == nil || !t.b.spend(4*n) {
		return
	}
	for i := range n {
		f(at + 4*i)
	}
}

// texts returns a vector of strings.
func (t table) texts(slot int) (out []string) {
	t.each(slot, func(at int) {
		from := at + t.b.u32(at)
		if x := t.b.at(from+4, t.b.u32(from)); t.b.spend(1 + len(x)) {
			out = append(out, string(x))
		}
	})
	return out
}
