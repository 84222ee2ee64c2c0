package wire

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

// The header of a frame is refused before anything is allocated for it.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name          string
		head, payload uint64
		ok            bool
	}{
		{"maxHead", maxHead, 0, true}, {"maxHead+1", maxHead + 1, 0, false},
		{"MaxPayload", 0, MaxPayload, true}, {"MaxPayload+1", 0, MaxPayload + 1, false},
	} {
		var b bytes.Buffer
		if err := NewWriter(&b).Write(KindBeat, 1, nil); err != nil {
			t.Fatal(err)
		}
		h := b.Bytes()
		binary.LittleEndian.PutUint32(h[16:], uint32(c.head))
		binary.LittleEndian.PutUint32(h[20:], uint32(c.payload))
		_, err := Read(bytes.NewReader(h), 0)
		if err == nil || strings.Contains(err.Error(), "too large") == c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
