package phonetest

import (
	"encoding/binary"
	"fmt"
	"io"
)

// command is the kind of a message.
type command uint32

// The commands, by their bytes.
const (
	cnxn command = 0x4e584e43
	auth command = 0x48545541
	open command = 0x4e45504f
	okay command = 0x59414b4f
	clse command = 0x45534c43
	wrte command = 0x45545257
)

// The versions of the protocol: skipSum is the first without checksums.
const (
	oldVersion = 0x01000000
	skipSum    = 0x01000001
)

// maxData is the maximum length of the data of a message, as announced to the host.
const maxData = 256 << 10

// message is a message of the transport: a header of 24 bytes (command, two arguments,
// length of the data, sum of its bytes, complement of the command) and data. Versions
// before 0x01000001 check the sum. See protocol.txt of Android's sources.
type message struct {
	command    command
	arg0, arg1 uint32
	data       []byte
}

// sum returns the sum of the bytes.
func sum(data []byte) uint32 {
	var s uint32
	for _, b := range data {
		s += uint32(b)
	}
	return s
}

// bytes encodes the message.
func (m message) bytes() []byte {
	b := make([]byte, 0, 24+len(m.data))
	for _, v := range []uint32{uint32(m.command), m.arg0, m.arg1, uint32(len(m.data)), sum(m.data), ^uint32(m.command)} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return append(b, m.data...)
}

// readMessage reads a message and checks the sum if checked is set.
func readMessage(r io.Reader, checked bool) (message, error) {
	var head [24]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return message{}, err
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(head[4*i:]) }
	m := message{command: command(word(0)), arg0: word(1), arg1: word(2)}
	if word(5) != ^word(0) {
		return m, fmt.Errorf("adb: command %08x with complement %08x", word(0), word(5))
	}
	switch m.command {
	case cnxn, auth, open, okay, clse, wrte:
	default:
		return m, fmt.Errorf("adb: unknown command %08x", word(0))
	}
	if word(3) > maxData {
		return m, fmt.Errorf("adb: data too long: got %d bytes, limit %d", word(3), maxData)
	}
	m.data = make([]byte, word(3))
	if _, err := io.ReadFull(r, m.data); err != nil {
		return m, err
	}
	if s := sum(m.data); checked && s != word(4) {
		return m, fmt.Errorf("adb: sum mismatch: computed %08x, got %08x", s, word(4))
	}
	return m, nil
}
