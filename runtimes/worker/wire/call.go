package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"mm-abi.org/mm/runtimes"
)

// Call is the head of a KindRun and of the KindRan that answers it: the tensors in the
// payload and the room. It has a binary form, since JSON would take longer than the
// rest of a small function's call: numbers are varints, strings follow their lengths.
type Call struct {
	Room    *Room // set in a KindRun only; nil: none
	Tensors []Tensor
}

// AppendBinary implements encoding.BinaryAppender.
func (c *Call) AppendBinary(b []byte) ([]byte, error) {
	number := func(n int64) { b = binary.AppendVarint(b, n) }
	text := func(s string) { number(int64(len(s))); b = append(b, s...) }
	room := Room{Size: -1}
	if c.Room != nil {
		room = *c.Room
	}
	number(room.At)
	number(room.Size)
	number(int64(len(c.Tensors)))
	for _, t := range c.Tensors {
		text(t.Name)
		text(string(t.Type))
		number(int64(len(t.Shape)))
		for _, d := range t.Shape {
			number(d)
		}
		number(int64(t.Bytes))
		at := int64(-1)
		if t.Shared {
			at = t.At
		}
		number(at)
	}
	return b, nil
}

// errCall reports a truncated or invalid head of a call.
var errCall = errors.New("truncated")

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (c *Call) UnmarshalBinary(b []byte) error {
	bad := false
	number := func() int64 {
		n, size := binary.Varint(b)
		if size <= 0 {
			bad, b = true, nil
			return 0
		}
		b = b[size:]
		return n
	}
	count := func() int { // of items of at least one byte each
		n := number()
		if n < 0 || n > int64(len(b)) {
			bad = true
			return 0
		}
		return int(n)
	}
	text := func() string {
		n := count()
		s := string(b[:n])
		b = b[n:]
		return s
	}
	*c = Call{}
	if room := (Room{number(), number()}); room.Size >= 0 {
		c.Room = &room
	}
	for range count() {
		t := Tensor{Name: text(), Type: runtimes.Elem(text())}
		for range count() {
			t.Shape = append(t.Shape, number())
		}
		n, at := number(), number()
		if t.Bytes = int(n); int64(t.Bytes) != n {
			bad = true
		}
		if at >= 0 {
			t.Shared, t.At = true, at
		}
		if bad {
			return errCall
		}
		c.Tensors = append(c.Tensors, t)
	}
	if bad {
		return errCall
	}
	if len(b) != 0 {
		return fmt.Errorf("%d trailing bytes", len(b))
	}
	return nil
}
