package fsx_test

import (
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

// A file overwrites itself under any name, and a folder that holds it.
func TestOverwrites(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, path := range []string{a, b} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		written, read string
		want          bool
	}{{a, a, true}, {filepath.Join(dir, ".", "a"), a, true}, {a, b, false}, {a, dir, true}, {filepath.Join(dir, "new"), a, false}} {
		if got := fsx.Overwrites(c.written, c.read); got != c.want {
			t.Errorf("%s over %s: %v", c.written, c.read, got)
		}
	}
}
