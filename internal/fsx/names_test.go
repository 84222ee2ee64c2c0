package fsx

import (
	"io/fs"
	"strings"
	"testing"
)

// Errors name the file by its path, not by its name in the folder.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	d, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.WriteFile("a", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, created := d.Create("a", 0o600)
	for what, err := range map[string]error{"create": created, "remove": d.Remove("b"), "rename": d.Rename("b", "c"), "chmod": d.Chmod("b", 0o600)} {
		if err == nil || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "at ") {
			t.Errorf("%s: got %v, want a path in %s", what, err, dir)
		}
	}
	full := &fs.PathError{Op: "stat", Path: "x", Err: fs.ErrInvalid}
	if d.named(full); full.Path != "x" {
		t.Errorf("a full path: got %s", full.Path)
	}
}
