package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
)

// cursor reads the header sequentially. In memory it returns subslices; from a
// ReaderAt it reads ahead in growing steps, never past size.
type cursor struct {
	buf  []byte // read so far, from the file's start
	pos  int    // next byte
	size int64  // of the file
	src  io.ReaderAt
}

// firstRead is the initial read of a ReaderAt, in bytes; later reads double.
const firstRead = 64 << 10

// left returns the number of unread bytes of the file.
func (c *cursor) left() uint64 { return uint64(c.size - int64(c.pos)) }

// take returns the next n bytes, which remain valid.
func (c *cursor) take(n uint64, what string) ([]byte, error) {
	if n > c.left() {
		return nil, fmt.Errorf("file truncated: %s needs %d bytes, %d left", what, n, c.left())
	}
	end := c.pos + int(n)
	if end > len(c.buf) {
		if err := c.fill(end); err != nil {
			return nil, fmt.Errorf("reading %s: %w", what, err)
		}
	}
	b := c.buf[c.pos:end:end]
	c.pos = end
	return b, nil
}

// fill reads ahead until buf holds the first end bytes of the file.
func (c *cursor) fill(end int) error {
	want := int(min(c.size, int64(max(end, 2*len(c.buf), firstRead))))
	buf := make([]byte, want)
	have := copy(buf, c.buf)
	n, err := c.src.ReadAt(buf[have:], int64(have))
	if n < want-have {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	c.buf = buf
	return nil
}

func (c *cursor) u32(what string) (uint32, error) {
	b, err := c.take(4, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (c *cursor) u64(what string) (uint64, error) {
	b, err := c.take(8, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// str reads a length-prefixed string of at most limit bytes.
func (c *cursor) str(what string, limit uint64) (string, error) {
	n, err := c.u64("the length of " + what)
	if err != nil {
		return "", err
	}
	if n > limit {
		return "", fmt.Errorf("%s too long: got %d bytes, limit %d", what, n, limit)
	}
	b, err := c.take(n, what)
	return string(b), err
}
