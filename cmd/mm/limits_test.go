package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/internal/diag"
)

// sparse returns a file of a size.
func sparse(t *testing.T, size int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
		t.Fatal(err)
	}
	return path
}

// Inputs of the size of a limit are accepted, those a byte longer are not.
func TestLimits(t *testing.T) {
	for more, want := range map[int]bool{0: true, 1: false} {
		p := &program{stdin: strings.NewReader(""), Printer: console.Printer{Stderr: io.Discard}}
		if _, err := p.textLines(sparse(t, maxTextFile+int64(more))); (err == nil) != want {
			t.Errorf("texts of maxTextFile+%d bytes: %v", more, err)
		} else if list, ok := diag.From(err); !want && (!ok || list[0].Code != diag.TextLong) {
			t.Errorf("texts of maxTextFile+%d bytes: got %v, want %s", more, err, diag.TextLong)
		}
	}
}
