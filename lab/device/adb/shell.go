package adb

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"mm-abi.org/mm/lab/device/protocol"
)

// Lane is a connection to one device.
type Lane struct {
	Client Client
	Serial string
	// features are the features of the device.
	features []string
}

// Lane connects to the device with the serial number.
func (c Client) Lane(ctx context.Context, serial string) (*Lane, error) {
	text, err := c.query(ctx, "host-serial:"+serial+":features")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", serial, err)
	}
	l := &Lane{Client: c, Serial: serial, features: strings.Split(text, ",")}
	if !slices.Contains(l.features, "shell_v2") {
		return nil, fmt.Errorf("%s: %w: no exit codes (feature shell_v2 missing, Android before 7)", serial, protocol.ErrOld)
	}
	return l, nil
}

// Close implements io.Closer. Each command has its own connection, so there is nothing to
// close.
func (l *Lane) Close() error { return nil }

// open opens a service of the device.
func (l *Lane) open(ctx context.Context, service string) (*conn, error) {
	c, err := l.Client.dial(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range []string{"host:transport:" + l.Serial, service} {
		if err := c.request(s); err != nil {
			c.Close()
			return nil, fmt.Errorf("%s: %w", l.Serial, broken(ctx, err))
		}
	}
	return c, nil
}

// The packets of shell,v2: one byte for the kind, the length in four bytes, little endian,
// and the data.
const (
	packetStdout = 1
	packetStderr = 2
	packetExit   = 3
)

// maxPacket is the maximum size of a packet from the device; adbd sends up to 1 MiB.
const maxPacket = 4 << 20

// Exec runs a command in the device's shell. A failing command is not an error. If the
// connection ends before the exit code, the error is [protocol.ErrLost].
func (l *Lane) Exec(ctx context.Context, command string) (protocol.CommandOutput, error) {
	c, err := l.open(ctx, "shell,v2,raw:"+command)
	if err != nil {
		return protocol.CommandOutput{}, err
	}
	defer c.Close()
	out, err := readShell(c.in)
	if err != nil {
		return out, fmt.Errorf("%s: %w", l.Serial, broken(ctx, err))
	}
	return out, nil
}

// readShell reads packets up to the exit code.
func readShell(r io.Reader) (protocol.CommandOutput, error) {
	var stdout protocol.Head
	var stderr protocol.Tail
	for {
		var head [5]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return protocol.CommandOutput{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Code: -1}, err
		}
		n := binary.LittleEndian.Uint32(head[1:])
		if n > maxPacket {
			return protocol.CommandOutput{Code: -1}, fmt.Errorf("adb: packet too long: got %d bytes, limit %d", n, maxPacket)
		}
		var to io.Writer = io.Discard // unknown kind
		switch head[0] {
		case packetStdout:
			to = &stdout
		case packetStderr:
			to = &stderr
		case packetExit:
			var code [1]byte
			if n != 1 {
				return protocol.CommandOutput{Code: -1}, fmt.Errorf("adb: exit code: got %d bytes, want 1", n)
			}
			_, err := io.ReadFull(r, code[:])
			return protocol.CommandOutput{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Code: int(code[0])}, err
		}
		if _, err := io.CopyN(to, r, int64(n)); err != nil {
			return protocol.CommandOutput{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Code: -1}, err
		}
	}
}
