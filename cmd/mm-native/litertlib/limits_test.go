package litertlib

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Shapes of maxRank dimensions and maxBytes bytes are accepted, larger ones refused.
func TestDimensions(t *testing.T) {
	shape := func(rank uint32, dims ...int32) *ranked {
		r := &ranked{rank: rank}
		copy(r.dims[:], dims)
		return r
	}
	for name, c := range map[string]struct {
		t    *ranked
		want int // bytes, -1: refused
		err  string
	}{
		"scalar":         {shape(0), 1, ""},
		"maxRank":        {shape(maxRank, 1, 2, 1, 1, 1, 1, 1, 3), 6, ""},
		"above maxRank":  {shape(maxRank+1, 1, 1, 1, 1, 1, 1, 1, 1), -1, "9 dimensions, limit 8"},
		"strides":        {shape(1|0x80, 5), 5, ""},
		"empty":          {shape(2, 0, 7), 0, ""},
		"open":           {shape(2, 1, -1), -1, "open sizes"},
		"maxBytes":       {shape(2, 1<<16, 1<<16), maxBytes, ""},
		"above maxBytes": {shape(2, 1<<16, 1<<16+1), -1, "exceeds 4294967296 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			dims, size, err := c.t.dimensions(1)
			if c.want < 0 {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || size != c.want || len(dims) != int(c.t.rank&0x7F) {
				t.Errorf("got %v, %d, %v, want %d", dims, size, err, c.want)
			}
		})
	}
}

// The version is that of the package's metadata, within maxMetadata and for the known
// interface.
func TestRelease(t *testing.T) {
	const head = "Metadata-Version: 2.4\nName: ai-edge-litert\n"
	for name, c := range map[string]struct{ text, want string }{
		"known":             {head + "Version: 2.3.1\nSummary: x\n\nVersion: 9\n", "2.3.1"},
		"maxMetadata":       {head + "Version: 2.3.0\n\n" + strings.Repeat("x", maxMetadata-len(head)-16), "2.3.0"},
		"above maxMetadata": {head + "Version: 2.3.0\n\n" + strings.Repeat("x", maxMetadata-len(head)-15), "!limit"},
		"later":             {head + "Version: 2.4.0\n", "!unsupported version 2.4.0"},
		"earlier":           {head + "Version: 2.30.0\n", "!unsupported version 2.30.0"},
		"another package":   {"Metadata-Version: 2.4\nName: numpy\nVersion: 2.3.0\n", "!not that of ai-edge-litert"},
		"in the text":       {head + "\nVersion: 2.3.0\n", "!not that of ai-edge-litert"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "METADATA"), []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := release(dir)
			if want, refused := strings.CutPrefix(c.want, "!"); refused {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			} else if err != nil || got != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
	if _, err := release(t.TempDir()); err == nil {
		t.Error("a folder without metadata has a version")
	}
}
