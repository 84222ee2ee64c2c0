package adb

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"mm-abi.org/mm/lab/device/lane"
)

func FuzzShell(f *testing.F) {
	f.Add([]byte("\x01\x02\x00\x00\x00hi\x02\x01\x00\x00\x00e\x03\x01\x00\x00\x00\x07"))
	f.Add([]byte("\x09\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := readShell(bytes.NewReader(b))
		if err == nil && (out.Code < 0 || out.Code > 255) || len(out.Stdout) > len(b) || len(out.Stderr) > lane.MaxStderr {
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

// answers is a connection on which a server has said b.
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

// What is too long, of a wrong kind or cut off is an error that says so.
func TestBadPackets(t *testing.T) {
	for in, want := range map[string]string{
		"\x01\xff\xff\xff\x7f": "packet of", "\x03\x02\x00\x00\x00ab": "exit code of 2", "": "EOF", "\x01\x05\x00\x00\x00ab": "EOF",
	} {
		if _, err := readShell(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
	for in, want := range map[string]string{
		"DATA\xff\xff\xff\x00": "in one message", "JUNK\x00\x00\x00\x00": `"JUNK"`, "FAIL\xff\xff\xff\x00": "message of", "DATA\x02\x00\x00\x00a": "EOF", "FAIL\x02\x00\x00\x00no": "no",
	} {
		if err := receive(strings.NewReader(in), io.Discard, 1<<20); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
	for in, want := range map[string]string{"WHAT": "neither", "FAIL00zz": "length", "OK": "EOF"} {
		if err := answers([]byte(in)).status(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
}
