//go:build unix

package fsx_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mm-abi.org/mm/internal/fsx"
)

// A pipe without a writer is refused without waiting.
func TestReadFilePipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o644); err != nil {
		t.Skip(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := fsx.ReadFile(pipe, 10)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, fsx.ErrIrregular) {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("waiting for a writer")
	}
}
