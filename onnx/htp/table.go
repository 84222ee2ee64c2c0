package htp

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// table is a table of a [buffer]. The zero value, and a table read after an
// error, has no fields.
type table struct {
	b         *buffer
	pos, list int64 // of the table and of its vtable
	fields    int
	size      int64
}

// Valid reports whether the table exists: false for an absent field and after
// an error.
func (t table) Valid() bool { return t.b != nil && t.pos > 0 && t.b.err == nil }

// Has reports whether a field is present.
func (t table) Has(field int) bool { return t.place(field, 1) != 0 }

// place returns the offset of an n-byte field in the buffer, or 0 if absent.
func (t table) place(field int, n int64) int64 {
	if !t.Valid() || field >= t.fields {
		return 0
	}
	off := int64(t.b.u16(t.list + 4 + 2*int64(field)))
	if off == 0 || t.b.err != nil {
		return 0
	}
	if off < 4 || n > t.size-off {
		t.b.malformed("field %d of the table at %d: offset %d exceeds its %d bytes", field, t.pos, off, t.size)
		return 0
	}
	return t.pos + off
}

// Uint8 returns an 8-bit field, or absent if missing.
func (t table) Uint8(field int, absent uint8) uint8 {
	if at := t.place(field, 1); at != 0 {
		if x := t.b.at(at, 1); x != nil {
			return x[0]
		}
	}
	return absent
}

// Uint32 returns a 32-bit field, or absent if missing.
func (t table) Uint32(field int, absent uint32) uint32 {
	if at := t.place(field, 4); at != 0 {
		return t.b.u32(at)
	}
	return absent
}

// Int32 returns a signed 32-bit field, or 0 if missing.
func (t table) Int32(field int) int32 { return int32(t.Uint32(field, 0)) }

// Float32 returns a float field, or 0 if missing.
func (t table) Float32(field int) float32 { return math.Float32frombits(t.Uint32(field, 0)) }

// Uint64 returns a 64-bit field, or 0 if missing.
func (t table) Uint64(field int) uint64 {
	if at := t.place(field, 8); at != 0 {
		if x := t.b.at(at, 8); x != nil {
			return binary.LittleEndian.Uint64(x)
		}
	}
	return 0
}

// Words returns a struct of n 32-bit numbers, all 0 if missing.
func (t table) Words(field, n int) []uint32 {
	out := make([]uint32, n)
	at := t.place(field, 4*int64(n))
	for i := range out {
		if at != 0 {
			out[i] = t.b.u32(at + 4*int64(i))
		}
	}
	return out
}

// Table returns the table of a field; not valid if missing.
func (t table) Table(field int) table {
	at := t.place(field, 4)
	if at == 0 {
		return table{b: t.b}
	}
	return t.b.table(t.b.follow(at))
}

// vector returns the offset and the number of elements of a field's vector.
func (t table) vector(field int, width int64) (at, n int64) {
	place := t.place(field, 4)
	if place == 0 {
		return 0, 0
	}
	at = t.b.follow(place)
	n = int64(t.b.u32(at))
	if !t.b.within(at+4, n*width) {
		return 0, 0
	}
	return at + 4, n
}

// Bytes returns a byte vector of at most limit bytes.
func (t table) Bytes(field int, limit int64) []byte {
	at, n := t.vector(field, 1)
	if n > limit {
		t.b.malformed("field %d of the table at %d too large: got %d bytes, limit %d", field, t.pos, n, limit)
		return nil
	}
	if n == 0 || !t.b.spend(n) {
		return nil
	}
	out := make([]byte, n)
	if !t.b.read(out, at) {
		return nil
	}
	return out
}

// Text returns a string, or "" if missing. It is UTF-8 of at most maxText bytes
// without a NUL.
func (t table) Text(field int) string {
	b := t.Bytes(field, maxText)
	for _, c := range b {
		if c == 0 {
			t.b.malformed("field %d of the table at %d contains a NUL", field, t.pos)
			return ""
		}
	}
	if !utf8.Valid(b) {
		t.b.malformed("field %d of the table at %d is invalid UTF-8", field, t.pos)
		return ""
	}
	return string(b)
}

// Uint32s returns a vector of 32-bit numbers.
func (t table) Uint32s(field int) []uint32 {
	at, n := t.vector(field, 4)
	if n == 0 || !t.b.spend(4*n) {
		return nil
	}
	out := make([]uint32, n)
	for i := range out {
		out[i] = t.b.u32(at + 4*int64(i))
	}
	return out
}

// Floats returns a vector of floats.
func (t table) Floats(field int) []float32 {
	words := t.Uint32s(field)
	out := make([]float32, len(words))
	for i, w := range words {
		out[i] = math.Float32frombits(w)
	}
	return out
}

// Tables yields the tables of a vector. It stops at an error, which
// [buffer.Err] returns.
func (t table) Tables(field int) func(yield func(i int, e table) bool) {
	return func(yield func(int, table) bool) {
		at, n := t.vector(field, 4)
		for i := int64(0); i < n; i++ {
			e := t.b.table(t.b.follow(at + 4*i))
			if !e.Valid() || !yield(int(i), e) {
				return
			}
		}
	}
}

// At returns the table at an index of a vector; not valid beyond its end.
func (t table) At(field int, i uint32) table {
	at, n := t.vector(field, 4)
	if int64(i) >= n {
		return table{b: t.b}
	}
	return t.b.table(t.b.follow(at + 4*int64(i)))
}

// Len returns the number of elements of a vector of offsets.
func (t table) Len(field int) int {
	_, n := t.vector(field, 4)
	return int(n)
}
