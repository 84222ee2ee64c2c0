package mmap

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int{0, 1, 4095, 4096, 4097, 1 << 20} {
		want := bytes.Repeat([]byte("mapped!"), size/7+1)[:size]
		path := filepath.Join(dir, "f")
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := Open(path)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if !bytes.Equal(m.Data, want) {
			t.Errorf("%d bytes: the mapping differs from the file", size)
		}
		if err := m.Close(); err != nil {
			t.Errorf("%d bytes: close: %v", size, err)
		}
		if len(m.Data) != 0 {
			t.Errorf("%d bytes: data left after close", size)
		}
		if err := m.Close(); size > 0 && !errors.Is(err, ErrClosed) {
			t.Errorf("%d bytes: second close: %v", size, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := Open(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("directory mapped")
	}
}
