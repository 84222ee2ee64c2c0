//go:build unix

package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPrivate(t *testing.T) {
	dir := t.TempDir()
	for mode, want := range map[os.FileMode]bool{0o700: true, 0o500: true, 0o710: false, 0o704: false, 0o777: false} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := Private(dir, "things"); (err == nil) != want {
			t.Errorf("%v: %v", mode, err)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Private(file, "things"); err == nil {
		t.Error("a file is accepted as a folder")
	}
}
