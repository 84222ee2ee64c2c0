//go:build unix

package mmap

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

// A pipe in place of a file is refused without waiting for a writer.
func TestOpenPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(pipe); !errors.Is(err, fsx.ErrIrregular) {
		t.Errorf("got %v, want %v", err, fsx.ErrIrregular)
	}
}
