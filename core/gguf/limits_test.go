package gguf

import (
	"strings"
	"testing"
)

// TestLimits has a file at each limit, and one beyond it. A file that only
// declares a count at the limit is refused later, as truncated.
func TestLimits(t *testing.T) {
	key := func(n int) []byte { return head(0, 1).str(strings.Repeat("k", n)).u32(idUint8).raw(7).align().b }
	name := func(n int) []byte {
		return head(1, 0).info(strings.Repeat("n", n), 0, 0, 1).align().pad(32).b
	}
	dims := func(n int) []byte {
		d := make([]uint64, n)
		for i := range d {
			d[i] = 1
		}
		return head(1, 0).info("t", 0, 0, d...).align().pad(32).b
	}
	alignment := func(n int) []byte {
		return head(0, 1).str(KeyAlignment).u32(idUint32).u32(uint32(n)).b
	}
	for _, c := range []struct {
		name  string
		limit int
		file  func(n int) []byte
		at    string // of the error at the limit, or ""
		want  string // of the error beyond it
	}{
		{"maxKeys", maxKeys, func(n int) []byte { return head(0, uint64(n)).b }, "file truncated", "too many keys"},
		{"maxTensors", maxTensors, func(n int) []byte { return head(uint64(n), 0).b }, "file truncated", "too many tensors"},
		{"maxKeyBytes", maxKeyBytes, key, "", "too long"},
		{"maxTensorName", maxTensorName, name, "", "too long"},
		{"maxDims", maxDims, dims, "", "got 5 dimensions, limit 4"},
		{"maxStringBytes", maxStringBytes, func(n int) []byte { return head(0, 1).str("k").u32(idString).u64(uint64(n)).pad(32).b }, "file truncated", "too long"},
		{"maxElements", maxElements, func(n int) []byte { return head(0, 1).str("k").u32(idArray, idUint8).u64(uint64(n)).pad(32).b }, "file truncated", "array too long"},
	} {
		if _, err := Parse(c.file(c.limit)); (err == nil) != (c.at == "") || err != nil && !strings.Contains(err.Error(), c.at) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := Parse(c.file(c.limit + 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s + 1: %v", c.name, err)
		}
	}
	if _, err := Parse(alignment(maxAlignment)); err != nil {
		t.Errorf("maxAlignment: %v", err)
	}
	if _, err := Parse(alignment(2 * maxAlignment)); err == nil || !strings.Contains(err.Error(), "exceeds") {
		t.Errorf("2·maxAlignment: %v", err)
	}
	// Counts that cannot fit are refused before anything is read.
	for n, short := range map[int]bool{10*minKV + 3*minTensor: false, 10*minKV + 3*minTensor - 1: true} {
		if _, err := Parse(head(3, 10).pad(n).b); err == nil || strings.Contains(err.Error(), "3 tensors and 10 keys need") != short {
			t.Errorf("minKV and minTensor: %d bytes: %v", n, err)
		}
	}
	for n, want := range map[uint32]bool{0: false, 1: true, MaxBlocks: true, MaxBlocks + 1: false} {
		f := &File{KVs: []KV{{KeyArchitecture, "llama"}, {KeyBlockCount.In("llama"), n}}, keys: map[string]int{KeyArchitecture: 0, KeyBlockCount.In("llama"): 1}}
		if err := f.Check(); strings.Contains(errText(err), "block_count") == want {
			t.Errorf("MaxBlocks: %d: %v", n, err)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
