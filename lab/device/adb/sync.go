package adb

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"mm-abi.org/mm/lab/device/protocol"
)

// The limits of the sync protocol: adb's limits of the data of a message and of a path, and
// ours of an error message.
const (
	maxData    = 64 << 10
	maxPath    = 1024
	maxMessage = 64 << 10
)

// openSync opens the service, which executes requests in sequence.
func (l *Lane) openSync(ctx context.Context, path string) (*conn, error) {
	if len(path) > maxPath || path == "" {
		return nil, fmt.Errorf("adb: bad path length: got %d bytes, limit %d", len(path), maxPath)
	}
	return l.open(ctx, "sync:")
}

func (l *Lane) has(feature string) bool { return slices.Contains(l.features, feature) }

// ask sends a request: four letters, a length and a text.
func ask(w io.Writer, id, text string) error {
	b := binary.LittleEndian.AppendUint32([]byte(id), uint32(len(text)))
	_, err := w.Write(append(b, text...))
	return err
}

// Stat returns information about a file. Without stat_v2, devices report the lower 32 bits
// of the size; a size that may be larger is an error.
func (l *Lane) Stat(ctx context.Context, path string) (protocol.Info, error) {
	c, err := l.openSync(ctx, path)
	if err != nil {
		return protocol.Info{}, err
	}
	defer c.Close()
	id, read := "STAT", readStat
	if l.has("stat_v2") {
		id, read = "STA2", readStat2
	}
	if err := ask(c, id, path); err != nil {
		return protocol.Info{}, fmt.Errorf("%s: %s: %w", l.Serial, path, broken(ctx, err))
	}
	info, err := read(c.in)
	if err != nil {
		return protocol.Info{}, fmt.Errorf("%s: %s: %w", l.Serial, path, broken(ctx, err))
	}
	return info, nil
}

// The bits of a file mode.
const (
	modeKind = 0o170000
	modeDir  = 0o040000
)

func readStat(r io.Reader) (protocol.Info, error) {
	var b [16]byte // id, mode, size, time
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return protocol.Info{}, err
	}
	if string(b[:4]) != "STAT" {
		return protocol.Info{}, fmt.Errorf("adb: got %q, want STAT", b[:4])
	}
	mode, size := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	return protocol.Info{Exists: mode != 0, Dir: mode&modeKind == modeDir, Size: int64(size), Time: int64(binary.LittleEndian.Uint32(b[12:]))}, nil
}

// The error numbers of devices: errNoEntry is ENOENT, errNotDir ENOTDIR.
const (
	errNoEntry = 2
	errNotDir  = 20
)

func readStat2(r io.Reader) (protocol.Info, error) {
	var b [72]byte // id, error, dev, ino, mode, nlink, uid, gid, size, atime, mtime, ctime
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return protocol.Info{}, err
	}
	if string(b[:4]) != "STA2" {
		return protocol.Info{}, fmt.Errorf("adb: got %q, want STA2", b[:4])
	}
	switch code := binary.LittleEndian.Uint32(b[4:]); code {
	case 0:
	case errNoEntry, errNotDir:
		return protocol.Info{}, nil
	default:
		return protocol.Info{}, fmt.Errorf("%w: error %d", protocol.ErrFile, code)
	}
	mode, size := binary.LittleEndian.Uint32(b[24:]), binary.LittleEndian.Uint64(b[40:])
	if size > math.MaxInt64 {
		return protocol.Info{}, fmt.Errorf("adb: bad size %d", size)
	}
	return protocol.Info{Exists: true, Dir: mode&modeKind == modeDir, Size: int64(size), Time: int64(binary.LittleEndian.Uint64(b[56:]))}, nil
}

// Put creates or replaces a file with the bytes of r. adbd removes a partial file when the
// connection breaks, so package device sends large files in pieces.
func (l *Lane) Put(ctx context.Context, path string, r io.Reader) error {
	c, err := l.openSync(ctx, path)
	if err != nil {
		return err
	}
	defer c.Close()
	err = l.send(c, path, r)
	if err != nil {
		// The device's message explains the end of the connection.
		if message := status(c.in); errors.Is(message, protocol.ErrFile) {
			err = message
		}
		return fmt.Errorf("%s: %s: %w", l.Serial, path, broken(ctx, err))
	}
	if err := status(c.in); err != nil {
		return fmt.Errorf("%s: %s: %w", l.Serial, path, broken(ctx, err))
	}
	return nil
}

// fileMode is a regular file, readable by all and writable by the owner.
const fileMode = 0o100644

func (l *Lane) send(c *conn, path string, r io.Reader) error {
	if l.has("sendrecv_v2") {
		if err := ask(c, "SND2", path); err != nil {
			return err
		}
		setup := binary.LittleEndian.AppendUint32([]byte("SND2"), fileMode)
		if _, err := c.Write(binary.LittleEndian.AppendUint32(setup, 0)); err != nil { // not compressed
			return err
		}
	} else if err := ask(c, "SEND", fmt.Sprintf("%s,%d", path, fileMode)); err != nil {
		return err
	}
	buf := make([]byte, 8+maxData)
	copy(buf, "DATA")
	for {
		n, err := io.ReadFull(r, buf[8:])
		if n > 0 {
			binary.LittleEndian.PutUint32(buf[4:], uint32(n))
			if _, err := c.Write(buf[:8+n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			// The modification time is 0, so that nothing depends on a clock.
			_, err := c.Write(binary.LittleEndian.AppendUint32([]byte("DONE"), 0))
			return err
		case err != nil:
			return fmt.Errorf("reading the data to send: %w", err)
		}
	}
}

// status reads OKAY, or FAIL with a message.
func status(r io.Reader) error {
	var b [8]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return err
	}
	switch string(b[:4]) {
	case "OKAY":
		return nil
	case "FAIL":
		return failure(r, binary.LittleEndian.Uint32(b[4:]))
	}
	return fmt.Errorf("adb: got %q, want OKAY", b[:4])
}

func failure(r io.Reader, n uint32) error {
	if n > maxMessage {
		return fmt.Errorf("adb: message too long: %d bytes", n)
	}
	msg := make([]byte, n)
	if _, err := io.ReadFull(r, msg); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", protocol.ErrFile, bytes.TrimSpace(msg))
}

// Get reads a file of at most limit bytes.
func (l *Lane) Get(ctx context.Context, path string, w io.Writer, limit int64) error {
	c, err := l.openSync(ctx, path)
	if err != nil {
		return err
	}
	defer c.Close()
	id := "RECV"
	if l.has("sendrecv_v2") {
		id = "RCV2"
	}
	err = ask(c, id, path)
	if err == nil && id == "RCV2" {
		_, err = c.Write([]byte("RCV2\x00\x00\x00\x00")) // not compressed
	}
	if err == nil {
		err = receive(c.in, w, limit)
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", l.Serial, path, broken(ctx, err))
	}
	return nil
}

// receive reads DATA messages up to DONE.
func receive(r io.Reader, w io.Writer, limit int64) error {
	var all int64
	for {
		var b [8]byte
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return err
		}
		n := binary.LittleEndian.Uint32(b[4:])
		switch string(b[:4]) {
		case "DONE":
			return nil
		case "FAIL":
			return failure(r, n)
		case "DATA":
		default:
			return fmt.Errorf("adb: got %q, want DATA", b[:4])
		}
		if n > maxData {
			return fmt.Errorf("adb: data message too long: got %d bytes, limit %d", n, maxData)
		}
		if all += int64(n); all > limit {
			return fmt.Errorf("%w: larger than the expected %d bytes", protocol.ErrFile, limit)
		}
		if _, err := io.CopyN(w, r, int64(n)); err != nil {
			return err
		}
	}
}
