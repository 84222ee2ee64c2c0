package adb

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"mm-abi.org/mm/lab/device/lane"
)

// Lane is the way to one device.
type Lane struct {
	Client Client
	Serial string
	// features are those of the device that [Client.Lane] asked for.
	features []string
}

// Lane opens the way to the device with a serial number.
func (c Client) Lane(ctx context.Context, serial string) (*Lane, error) {
	text, err := c.query(ctx, "host-serial:"+serial+":features")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", serial, err)
	}
	l := &Lane{Client: c, Serial: serial, features: strings.Split(text, ",")}
	if !slices.Contains(l.features, "shell_v2") {
		return nil, fmt.Errorf("%s: %w: its shell tells no exit codes (no feature shell_v2, Android before 7)", serial, lane.ErrOld)
	}
	return l, nil
}

// Close implements io.Closer. Each command has a connection of its own.
func (l *Lane) Close() error { return nil }

// open asks for a service of the device.
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

// The packets of shell,v2: one byte that says which, four of the length, little
// endian, and the data.
const (
	packetStdout = 1
	packetStderr = 2
	packetExit   = 3
)

// maxPacket bounds a packet of the device's; adbd sends at most 1 MiB.
const maxPacket = 4 << 20

// Exec runs a command in the device's shell. That the command fails is no
// error; what breaks off before its exit code is [lane.ErrLost].
func (l *Lane) Exec(ctx context.Context, command string) (lane.Output, error) {
	c, err := l.open(ctx, "shell,v2,raw:"+command)
	if err != nil {
		return lane.Output{}, err
	}
	defer c.Close()
	out, err := readShell(c.in)
	if err != nil {
		return out, fmt.Errorf("%s: %w", l.Serial, broken(ctx, err))
	}
	return out, nil
}

// readShell reads packets up to the exit code.
func readShell(r io.Reader) (lane.Output, error) {
	var stdout lane.Head
	var stderr lane.Tail
	for {
		var head [5]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return lane.Output{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Code: -1}, err
		}
		n := binary.LittleEndian.Uint32(head[1:])
		if n > maxPacket {
			return lane.Output{Code: -1}, fmt.Errorf("adb: a packet of %d bytes, at most %d are read", n, maxPacket)
		}
		var to io.Writer = io.Discard // of a kind that is not known
		switch head[0] {
		case packetStdout:
			to = &stdout
		case packetStderr:
			to = &stderr
		case packetExit:
			var code [1]byte
			if n != 1 {
				return lane.Output{Code: -1}, fmt.Errorf("adb: an exit code of %d bytes", n)
			}
			_, err := io.ReadFull(r, code[:])
			return lane.Output{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Code: int(code[0])}, err
		}
		if _, err := io.CopyN(to, r, int64(n)); err != nil {
			return lane.Output{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), Code: -1}, err
		}
	}
}
