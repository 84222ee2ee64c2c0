package python

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/starlark"
)

// memory returns a module that only exports a memory of 16 pages.
func memory(t *testing.T) api.Module {
	t.Helper()
	r := wazero.NewRuntime(t.Context())
	t.Cleanup(func() { r.Close(context.Background()) })
	m, err := r.Instantiate(t.Context(), []byte("\x00asm\x01\x00\x00\x00\x05\x03\x01\x00\x10\x07\x0a\x01\x06memory\x02\x00"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLimits holds each limit on either side.
func TestLimits(t *testing.T) {
	m := memory(t)
	fallback := New(Options{Fallback: starlark.Executor{}})
	for _, c := range []struct {
		name  string
		limit int
		try   func(n int) bool
	}{
		{"maxPath", maxPath, func(n int) bool { // with the terminating zero
			m.Memory().Write(0, append(bytes.Repeat([]byte("a"), n-1), 0))
			_, ok := text(m, 0)
			return ok
		}},
		{"maxPieces", maxPieces, func(n int) bool { _, ok := pieces(m, 1<<19, uint32(n)); return ok }},
		{"maxOpen", maxOpen, func(n int) bool {
			ctx := context.WithValue(t.Context(), machineKey{}, &machine{files: assets([]sandbox.Asset{{Name: "a"}})})
			m.Memory().Write(0, []byte("/in/a\x00"))
			stack := make([]uint64, 4)
			for range n {
				stack[1], stack[2] = 0, 0
				openFile(ctx, m, stack)
			}
			return int32(stack[0]) >= 0
		}},
		{"maxSource", maxSource, func(n int) bool {
			_, err := fallback.Prepare(t.Context(), sandbox.Program{Code: bytes.Repeat([]byte("#"), n)})
			return !strings.Contains(err.Error(), "limit 1048576") // Starlark's is lower
		}},
	} {
		if !c.try(c.limit) {
			t.Errorf("%s: %d refused", c.name, c.limit)
		}
		if c.try(c.limit + 1) {
			t.Errorf("%s: %d accepted", c.name, c.limit+1)
		}
	}
	for n, want := range map[int]bool{maxArchive: true, maxArchive + 1: false} {
		data, err := readAll(bytes.NewReader(make([]byte, n)))
		if (err == nil) != want || want && len(data) != n {
			t.Errorf("an archive of %d bytes: got %d, %v", n, len(data), err)
		}
	}
}
