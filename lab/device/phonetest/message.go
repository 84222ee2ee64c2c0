// Package adbtest puts an emulated phone behind adb: [Daemon] speaks the device's
// side of the transport protocol on TCP, so that Android's own adb connects to it
// with adb connect, and [Server] is a double of the adb server for tests on
// machines without one. Both hand services to package phonetest.
//
// A message of the transport has a head of 24 bytes (command, two arguments, the
// length of the data, the sum of its bytes, the command's complement) and data.
// Versions before 0x01000001 check the sum. The protocol is described in
// protocol.txt of Android's sources.
package phonetest

import (
	"encoding/binary"
	"fmt"
	"io"
)

// command is what a message is.
type command uint32

// The commands, spelled by their bytes.
const (
	cnxn command = 0x4e584e43
	auth command = 0x48545541
	open command = 0x4e45504f
	okay command = 0x59414b4f
	clse command = 0x45534c43
	wrte command = 0x45545257
)

// The versions of the protocol: skipSum is the first that does not check sums.
const (
	oldVersion = 0x01000000
	skipSum    = 0x01000001
)

// maxData bounds the data of a message, and is what we tell the host.
const maxData = 256 << 10

// message is one.
type message struct {
	command    command
	arg0, arg1 uint32
	data       []byte
}

// sum is the sum of the bytes.
func sum(data []byte) uint32 {
	var s uint32
	for _, b := range data {
		s += uint32(b)
	}
	return s
}

// bytes is the message as it is sent.
func (m message) bytes() []byte {
	b := make([]byte, 0, 24+len(m.data))
	for _, v := range []uint32{uint32(m.command), m.arg0, m.arg1, uint32(len(m.data)), sum(m.data), ^uint32(m.command)} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return append(b, m.data...)
}

// readMessage reads one. Sums are held to where checked is set.
func readMessage(r io.Reader, checked bool) (message, error) {
	var head [24]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return message{}, err
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(head[4*i:]) }
	m := message{command: command(word(0)), arg0: word(1), arg1: word(2)}
	if word(5) != ^word(0) {
		return m, fmt.Errorf("adb: the command %08x with the complement %08x", word(0), word(5))
	}
	switch m.command {
	case cnxn, auth, open, okay, clse, wrte:
	default:
		return m, fmt.Errorf("adb: the command %08x", word(0))
	}
	if word(3) > maxData {
		return m, fmt.Errorf("adb: %d bytes of data, at most %d are read", word(3), maxData)
	}
	m.data = make([]byte, word(3))
	if _, err := io.ReadFull(r, m.data); err != nil {
		return m, err
	}
	if s := sum(m.data); checked && s != word(4) {
		return m, fmt.Errorf("adb: data with the sum %08x, the message says %08x", s, word(4))
	}
	return m, nil
}
