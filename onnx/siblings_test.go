package onnx_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/onnx"
)

// A model that is a link may use links into the folder of its target, as in a
// Hugging Face cache; a model that is a plain file may not, and no other folder
// is allowed.
func TestSiblings(t *testing.T) {
	dir := t.TempDir()
	snapshot, blobs := filepath.Join(dir, "snapshots", "1"), filepath.Join(dir, "blobs")
	for _, d := range []string{snapshot, blobs} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{filepath.Join(blobs, "a"), filepath.Join(blobs, "b"), filepath.Join(dir, "secret"), filepath.Join(snapshot, "plain.onnx")} {
		if err := os.WriteFile(f, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"m.onnx": "../../blobs/a", "w.bin": "../../blobs/b", "out.bin": "../../secret"} {
		if err := os.Symlink(filepath.FromSlash(target), filepath.Join(snapshot, name)); err != nil {
			t.Skip(err)
		}
	}
	for _, tc := range []struct {
		model, location string
		linked          bool
	}{
		{"m.onnx", "w.bin", false},
		{"m.onnx", "out.bin", true},
		{"plain.onnx", "w.bin", true},
	} {
		f, err := onnx.SiblingOpener(filepath.Join(snapshot, tc.model))(tc.location)
		if errors.Is(err, onnx.ErrLinked) != tc.linked || err != nil != tc.linked {
			t.Errorf("%s, %s: %v", tc.model, tc.location, err)
		}
		if err == nil {
			_ = f.Close()
		}
	}
}

// A leading ./ is dropped from a location; what follows is still checked.
func TestLocationOfThisFolder(t *testing.T) {
	for location, want := range map[string]string{"./w.bin": "w.bin", ".//etc/passwd": "/etc/passwd", "./../w.bin": "../w.bin", "a/./w": "a/./w"} {
		e := &onnx.External{Entries: []onnx.Entry{{Key: "location", Value: location}}}
		if got := e.Location(); got != want {
			t.Errorf("%s: got %s, want %s", location, got, want)
		}
		if err := onnx.CheckLocation(e.Location()); (err == nil) != (location == "./w.bin") {
			t.Errorf("%s: %v", location, err)
		}
	}
}
