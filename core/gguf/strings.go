package gguf

import (
	"encoding/binary"
	"fmt"
	"iter"
	"unsafe"
)

// Strings is an array of strings as encoded in a file: a vocabulary of 262k tokens
// is neither copied nor indexed until it is used. It aliases the file and must not be
// used after [File.Close].
type Strings struct {
	raw []byte // validated: length and bytes of each string
	n   int
}

// Len returns the number of strings.
func (s Strings) Len() int { return s.n }

// All returns the strings in order, by index. Each aliases the file: a string that
// outlives it must be cloned.
func (s Strings) All() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for i, at := 0, 0; i < s.n; i++ {
			from := at + 8
			at = from + int(binary.LittleEndian.Uint64(s.raw[at:]))
			if !yield(i, unsafe.String(unsafe.SliceData(s.raw[from:at]), at-from)) {
				return
			}
		}
	}
}

// Bytes returns the total length of the strings.
func (s Strings) Bytes() int { return len(s.raw) - 8*s.n }

// Slice copies the strings.
func (s Strings) Slice() []string {
	block := make([]byte, 0, s.Bytes())
	for _, text := range s.All() {
		block = append(block, text...)
	}
	shared, out, from := string(block), make([]string, s.n), 0
	for i, text := range s.All() {
		out[i], from = shared[from:from+len(text)], from+len(text)
	}
	return out
}

// Strings returns the array of strings of key without copying it.
func (f *File) Strings(key string) (Strings, error) {
	i, ok := f.keys[key]
	if !ok {
		return Strings{}, fmt.Errorf("gguf: %w: %s", ErrNoKey, key)
	}
	s, ok := f.KVs[i].Value.(Strings)
	if !ok {
		return s, fmt.Errorf("gguf: key %s: got type %s, want arr[str]", key, TypeName(f.KVs[i].Value))
	}
	return s, nil
}

// strings validates the lengths of n strings.
func (c *cursor) strings(n uint64) (any, error) {
	if n > c.left()/8 {
		return nil, fmt.Errorf("file truncated: an array of %d strings needs at least %d bytes, %d left", n, 8*n, c.left())
	}
	start := c.pos
	for i := range n {
		length, err := c.u64("the length of a string in an array")
		if err != nil {
			return nil, err
		}
		if length > c.left() || length > maxStringBytes {
			return nil, fmt.Errorf("string %d of an array has %d bytes, only %d are left in the file", i, length, c.left())
		}
		if _, err := c.take(length, "a string in an array"); err != nil {
			return nil, err
		}
	}
	return Strings{c.buf[start:c.pos:c.pos], int(n)}, nil
}
