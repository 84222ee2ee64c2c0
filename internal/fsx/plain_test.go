package fsx_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

// A file with another name, by any kind of link, is refused.
func TestOpenPlain(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	must(os.WriteFile(filepath.Join(dir, "sub", "plain"), []byte("x"), 0o644))
	must(os.WriteFile(filepath.Join(away, "secret"), []byte("x"), 0o644))
	must(os.WriteFile(filepath.Join(dir, "one"), []byte("x"), 0o644))
	must(os.Link(filepath.Join(dir, "one"), filepath.Join(dir, "two")))
	must(os.Symlink(filepath.Join(away, "secret"), filepath.Join(dir, "out")))
	must(os.Symlink("sub/plain", filepath.Join(dir, "in")))
	must(os.Symlink("sub", filepath.Join(dir, "folder")))
	for name, want := range map[string]error{
		"sub/plain": nil, "one": fsx.ErrLinked, "two": fsx.ErrLinked, "out": fsx.ErrLinked, "in": fsx.ErrLinked, "folder/plain": fsx.ErrLinked,
		"sub": fsx.ErrIrregular, "sub/plain/x": fsx.ErrIrregular, "none": fs.ErrNotExist,
	} {
		f, err := fsx.OpenPlain(dir, name)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, not %v", name, err, want)
		}
		if err == nil {
			f.Close()
		}
	}
	for _, name := range []string{"../" + filepath.Base(away) + "/secret", filepath.Join(away, "secret")} {
		if f, err := fsx.OpenPlain(dir, name); err == nil {
			f.Close()
			t.Errorf("%s opened", name)
		}
	}
}
