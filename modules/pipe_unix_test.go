//go:build unix

package modules

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe in place of a module's file is refused without waiting for a writer.
func TestHashPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "w.onnx"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, _, err := hashFile(root, "w.onnx", true); err == nil {
		t.Error("a pipe was hashed")
	}
}
