package fsx

import (
	"encoding/binary"
	"testing"
)

func TestMaxHeader(t *testing.T) {
	for n, want := range map[uint64]FileKind{maxHeader: Safetensors, maxHeader + 1: Unknown} {
		if got := Sniff(append(binary.LittleEndian.AppendUint64(nil, n), '{')); got != want {
			t.Errorf("%d bytes: %q, want %q", n, got, want)
		}
	}
}
