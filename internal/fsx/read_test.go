package fsx_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("12345"), 0o644); err != nil {
		t.Fatal(err)
	}
	huge := filepath.Join(dir, "huge")
	if err := os.WriteFile(huge, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, 3<<30); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path  string
		limit int64
		want  string
		err   error
	}{
		{file, 5, "12345", nil},
		{file, 4, "", fsx.ErrTooLarge},
		{huge, 1 << 20, "", fsx.ErrTooLarge},
		{dir, 5, "", fsx.ErrIrregular},
		{filepath.Join(dir, "none"), 5, "", fs.ErrNotExist},
	} {
		got, err := fsx.ReadFile(c.path, c.limit)
		if !errors.Is(err, c.err) || string(got) != c.want {
			t.Errorf("%s, limit %d: %q, %v", c.path, c.limit, got, err)
		}
	}
}

// Reading a path uses a limited amount of memory.
func TestReadFileBounds(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no device files")
	}
	for _, path := range []string{"/dev/zero", "/dev/null"} {
		if _, err := fsx.ReadFile(path, 10); !errors.Is(err, fsx.ErrIrregular) {
			t.Errorf("%s: %v", path, err)
		}
	}
	huge := filepath.Join(t.TempDir(), "huge")
	if err := os.WriteFile(huge, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, 3<<30); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fsx.ReadFile(huge, 1<<20)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("3 GiB were refused with %d bytes allocated", n)
	}
}

func TestReadHead(t *testing.T) {
	dir := t.TempDir()
	huge, small := filepath.Join(dir, "huge"), filepath.Join(dir, "small")
	if err := os.WriteFile(huge, []byte("abcdef"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, 3<<30); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(small, []byte("ab"), 0o644); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{huge: "abcd", small: "ab"} {
		if got, err := fsx.ReadHead(file, 4); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
	if _, err := fsx.ReadHead(dir, 4); !errors.Is(err, fsx.ErrIrregular) {
		t.Errorf("a folder: %v", err)
	}
}
