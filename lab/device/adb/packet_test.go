package adb

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"mm-abi.org/mm/lab/device/protocol"
)

func FuzzShell(f *testing.F) {
	f.Add([]byte("\x01\x02\x00\x00\x00hi\x02\x01\x00\x00\x00e\x03\x01\x00\x00\x00\x07"))
	f.Add([]byte("\x09\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := readShell(bytes.NewReader(b))
		if err == nil && (out.Code < 0 || out.Code > 255) || len(out.Stdout) > len(b) || len(out.Stderr) > protocol.MaxStderr {
			t.Fatalf("%+v, %v", out, err)
		}
	})
}

func FuzzSync(f *testing.F) {
	f.Add([]byte("DATA\x02\x00\x00\x00hiDONE\x00\x00\x00\x00"))
	f.Add([]byte("FAIL\x02\x00\x00\x00no"))
	f.Add([]byte("STAT\x00\x81\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"))
	f.Add(append([]byte("STA2"), make([]byte, 68)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		var w bytes.Buffer
		receive(bytes.NewReader(b), &w, 100)
		if w.Len() > 100 {
			t.Fatalf("%d bytes", w.Len())
		}
		status(bytes.NewReader(b))
		if i, err := readStat(bytes.NewReader(b)); err == nil && i.Size < 0 {
			t.Fatalf("%+v", i)
		}
		if i, err := readStat2(bytes.NewReader(b)); err == nil && i.Size < 0 {
			t.Fatalf("%+v", i)
		}
	})
}

// answers returns a connection with the answer b of a server.
func answers(b []byte) *conn {
	here, there := net.Pipe()
	there.Close()
	return &conn{Conn: here, in: bufio.NewReader(bytes.NewReader(b)), stop: func() bool { return true }}
}

func FuzzServer(f *testing.F) {
	f.Add([]byte("OKAY0004text"))
	f.Add([]byte("FAIL0012device unauthorized"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := answers(b)
		if c.status() == nil {
			if text, err := c.text(); err == nil && len(text) > 0xffff {
				t.Fatalf("%d bytes", len(text))
			}
		}
	})
}

// Each limit is accepted, and one more is refused.
func TestLimits(t *testing.T) {
	header := func(id string, n int, rest string) io.Reader {
		return io.MultiReader(strings.NewReader(id), bytes.NewReader(binary.LittleEndian.AppendUint32(nil, uint32(n))), strings.NewReader(strings.Repeat("x", n)+rest))
	}
	lines := func(n int) string { return strings.Repeat("SERIAL device\n", n) }
	for name, try := range map[string]func(over int) error{
		"maxText": func(over int) error {
			c := answers([]byte("OKAY"))
			c.Conn = discard{}
			return c.request(strings.Repeat("x", maxText+over))
		},
		"maxDevices": func(over int) error { _, err := ParseDevices(lines(maxDevices + over)); return err },
		"maxPacket": func(over int) error {
			_, err := readShell(header("\x01", maxPacket+over, "\x03\x01\x00\x00\x00\x00"))
			return err
		},
		"maxData": func(over int) error {
			return receive(header("DATA", maxData+over, "DONE\x00\x00\x00\x00"), io.Discard, 1<<20)
		},
		"maxMessage": func(over int) error {
			if err := failure(bytes.NewReader(make([]byte, maxMessage+over)), uint32(maxMessage+over)); !strings.Contains(err.Error(), "too long") {
				return nil
			}
			return protocol.ErrFile
		},
		"maxPath": func(over int) error {
			l := &Lane{Client: Client{Addr: "127.0.0.1:1"}}
			if _, err := l.openSync(t.Context(), strings.Repeat("x", maxPath+over)); err == nil || !strings.Contains(err.Error(), "path length") {
				return nil
			}
			return protocol.ErrFile
		},
	} {
		if err := try(0); err != nil {
			t.Errorf("%s: at the limit: %v", name, err)
		}
		if try(1) == nil {
			t.Errorf("%s: accepted above the limit", name)
		}
	}
}

// discard is a connection that discards what is written.
type discard struct{ net.Conn }

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// Malformed packets are errors.
func TestBadPackets(t *testing.T) {
	for in, want := range map[string]string{
		"\x01\xff\xff\xff\x7f": "packet too long", "\x03\x02\x00\x00\x00ab": "exit code: got 2", "": "EOF", "\x01\x05\x00\x00\x00ab": "EOF",
	} {
		if _, err := readShell(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
	for in, want := range map[string]string{
		"DATA\xff\xff\xff\x00": "data message too long", "JUNK\x00\x00\x00\x00": `"JUNK"`, "FAIL\xff\xff\xff\x00": "message too long", "DATA\x02\x00\x00\x00a": "EOF", "FAIL\x02\x00\x00\x00no": "no",
	} {
		if err := receive(strings.NewReader(in), io.Discard, 1<<20); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
	for in, want := range map[string]string{"WHAT": "bad status", "FAIL00zz": "length", "OK": "EOF"} {
		if err := answers([]byte(in)).status(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
}
