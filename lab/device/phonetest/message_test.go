package phonetest

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMessage(t *testing.T) {
	m := message{wrte, 1, 2, []byte("hello")}
	for _, checked := range []bool{false, true} {
		got, err := readMessage(bytes.NewReader(m.bytes()), checked)
		if err != nil || !cmp.Equal(m, got, cmp.AllowUnexported(message{})) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	big := message{wrte, 1, 2, make([]byte, maxData)}
	if got, err := readMessage(bytes.NewReader(big.bytes()), true); err != nil || len(got.data) != maxData {
		t.Errorf("maxData: %d bytes, %v", len(got.data), err)
	}
	change := func(at int, v uint32) []byte {
		b := m.bytes()
		binary.LittleEndian.PutUint32(b[at:], v)
		return b
	}
	for want, b := range map[string][]byte{
		"complement": change(20, 7), "unknown command": append([]byte("JUNK"), change(20, ^uint32(0x4b4e554a))[4:]...),
		"too long": change(12, maxData+1), "sum mismatch": change(16, 1), "EOF": m.bytes()[:26],
	} {
		if _, err := readMessage(bytes.NewReader(b), true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := readMessage(bytes.NewReader(change(16, 1)), false); err != nil {
		t.Errorf("unchecked sum: %v", err)
	}
}

func FuzzMessage(f *testing.F) {
	f.Add(message{cnxn, skipSum, maxData, []byte("host::")}.bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readMessage(bytes.NewReader(b), true)
		if err != nil {
			return
		}
		if again := m.bytes(); !bytes.HasPrefix(b, again) {
			t.Fatalf("%q and %q", b, again)
		}
	})
}
