// Package wire is the protocol between mm and an engine in a child process over a
// pair of pipes.
//
// A [Frame] is a header of 24 bytes, little endian (the four letters MMW1, the kind,
// three zeros, the request id, the lengths of head and payload), a head in JSON (a
// [Call] has a binary form) and a payload of raw bytes: tokens as int32, vectors and
// logits as float32, tensors unchanged, written from and read into the memory that
// holds them. The first frame of each side is a [Hello]. Then mm sends any number of
// requests. Each is answered by one Reply, which in a generation follows the tokens. A
// Cancel ends a request early; a Beat is a sign of life while the child computes.
//
// If mm offers shared memory ([Hello.Shared]; the child has it as file 3), large
// tensors use it: a request reserves a [Room] until it is answered, a [Tensor] has a
// position in the room, and results are placed in the rest of the room if they fit.
//
// Neither side trusts the other: [Read] bounds each length before it allocates, and
// allocates in proportion to the received bytes, not to the announced length.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Version is the version of the protocol. Both sides must have the same.
const Version = 2

// Kind is the kind of a frame.
type Kind uint8

// The kinds of frames.
const (
	KindHello   Kind = 1 + iota // the first frame of each side; head is a Hello
	KindRequest                 // head is a Request
	KindReply                   // the last frame of a request; head is a Reply
	KindToken                   // payload is one int32
	KindCancel                  // ends a request early; it is still answered
	KindBeat                    // a sign of life
	KindRun                     // runs a function; head is a Call
	KindRan                     // the last frame of a KindRun that succeeded; head is a Call
	kinds
)

// Limits of a frame.
const (
	headerBytes = 24
	maxHead     = 64 << 20 // bytes of JSON
	// MaxPayload is the maximum of bytes of a payload; a reader may set a lower one.
	MaxPayload = 1 << 30
	firstRead  = 1 << 20 // bytes allocated before the first are received
)

var magic = [4]byte{'M', 'M', 'W', '1'}

// Frame is one message.
type Frame struct {
	Kind    Kind
	ID      uint64 // of the request; 0: none
	Head    []byte // JSON, a Call, or nothing
	Payload []byte
}

// Decode reads the head into v.
func (f *Frame) Decode(v any) error {
	if c, ok := v.(*Call); ok {
		if err := c.UnmarshalBinary(f.Head); err != nil {
			return fmt.Errorf("decoding the head of a call: %w", err)
		}
		return nil
	}
	if err := json.Unmarshal(f.Head, v); err != nil {
		return fmt.Errorf("decoding the head of a frame: %w", err)
	}
	return nil
}

// Read reads the next frame from r, with a payload of at most limit bytes; if limit is
// 0, MaxPayload. It returns io.EOF at the end.
func Read(r io.Reader, limit int64) (*Frame, error) {
	if limit == 0 {
		limit = MaxPayload
	}
	var h [headerBytes]byte
	if n, err := io.ReadFull(r, h[:]); err == io.EOF {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("frame truncated after %d bytes: %w", n, err)
	}
	f := &Frame{Kind: Kind(h[4]), ID: binary.LittleEndian.Uint64(h[8:])}
	head, payload := binary.LittleEndian.Uint32(h[16:]), binary.LittleEndian.Uint32(h[20:])
	switch {
	case [4]byte(h[:4]) != magic || h[5]|h[6]|h[7] != 0:
		return nil, fmt.Errorf("bad frame magic %q", h[:8])
	case f.Kind == 0 || f.Kind >= kinds:
		return nil, fmt.Errorf("unknown frame kind %d", f.Kind)
	case head > maxHead || int64(payload) > limit:
		return nil, fmt.Errorf("frame too large: head %d and payload %d bytes, limits %d and %d", head, payload, maxHead, limit)
	}
	var err error
	if f.Head, err = take(r, int(head)); err == nil {
		f.Payload, err = take(r, int(payload))
	}
	if err != nil {
		return nil, fmt.Errorf("frame truncated: %w", err)
	}
	return f, nil
}

// take reads n bytes. It allocates at most twice the received bytes, or firstRead.
func take(r io.Reader, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b := make([]byte, min(n, firstRead))
	for have := 0; ; {
		m, err := io.ReadFull(r, b[have:])
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if have += m; have == n {
			return b, nil
		}
		grown := make([]byte, min(n, 2*len(b)))
		copy(grown, b)
		b = grown
	}
}

// Writer writes frames. It is safe for concurrent use.
type Writer struct {
	mu sync.Mutex
	w  io.Writer
}

// NewWriter returns a writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Write sends a frame; a nil head is empty. The pieces of the payload are not copied.
func (w *Writer) Write(kind Kind, id uint64, head any, payload ...[]byte) error {
	b := make([]byte, headerBytes, 512)
	if c, ok := head.(*Call); ok {
		var err error
		if b, err = c.AppendBinary(b); err != nil {
			return err
		}
	} else if head != nil {
		text, err := json.Marshal(head)
		if err != nil {
			return fmt.Errorf("encoding the head of a frame: %w", err)
		}
		b = append(b, text...)
	}
	n := 0
	for _, p := range payload {
		n += len(p)
		if n > MaxPayload || len(b) > headerBytes+maxHead {
			return fmt.Errorf("frame too large: head %d and payload at least %d bytes, limits %d and %d", len(b)-headerBytes, n, maxHead, MaxPayload)
		}
	}
	copy(b, magic[:])
	b[4] = byte(kind)
	binary.LittleEndian.PutUint64(b[8:], id)
	binary.LittleEndian.PutUint32(b[16:], uint32(len(b)-headerBytes))
	binary.LittleEndian.PutUint32(b[20:], uint32(n))
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range payload {
		if len(b)+len(p) > 1<<12 { // small ones go in one write
			if _, err := w.w.Write(b); err != nil {
				return err
			}
			b = p
			continue
		}
		b = append(b, p...)
	}
	_, err := w.w.Write(b)
	return err
}
