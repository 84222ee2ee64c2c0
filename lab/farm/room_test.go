package farm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/internal/fsx"
)

// keptFolders makes kept folders of 100 bytes whose last jobs were hours ago.
func keptFolders(t *testing.T, hours map[string]int) string {
	t.Helper()
	dir := t.TempDir()
	for name, ago := range hours {
		at := filepath.Join(dir, keptDir, name, "sub")
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, usedDir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "f"), make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
		mark, when := filepath.Join(dir, usedDir, name), time.Now().Add(-time.Duration(ago)*time.Hour)
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(mark, when, when); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// Kept folders are removed by age, then by room, the least recently used first, and never
// that of the current job.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		room    Room
		current string
		want    []string
	}{
		{Room{Bytes: 300, Age: 100 * time.Hour}, "", []string{"a", "b", "c"}},
		{Room{Bytes: 299, Age: 100 * time.Hour}, "", []string{"b", "c"}},
		{Room{Bytes: 100, Age: 100 * time.Hour}, "", []string{"c"}},
		{Room{Bytes: 1, Age: 100 * time.Hour}, "", nil},
		{Room{Bytes: 1, Age: time.Hour}, "a", []string{"a"}},
		{Room{Bytes: 200, Age: 100 * time.Hour}, "a", []string{"a", "c"}},
		{Room{Bytes: 300, Age: 25 * time.Hour}, "", []string{"b", "c"}},
		{Room{}, "", []string{"a", "b", "c"}},
	} {
		dir := keptFolders(t, map[string]int{"a": 30, "b": 20, "c": 10})
		cmd := Command{Dir: dir, Room: c.room}
		if err := cmd.prune(t.Context(), c.current); err != nil {
			t.Fatal(err)
		}
		if got := names(t, filepath.Join(dir, keptDir)); !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %v, want %v", c, got, c.want)
		}
		if got := names(t, filepath.Join(dir, usedDir)); !slices.Equal(got, c.want) {
			t.Errorf("%+v: marks %v, want %v", c, got, c.want)
		}
	}
}

// A worker that starts removes the remains of dead ones, and a job renews the mark of its folder.
func TestTidy(t *testing.T) {
	dir := keptFolders(t, map[string]int{"old": 24 * 8, "new": 1})
	if err := os.MkdirAll(filepath.Join(dir, onceDir, "dead"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := Command{Dir: dir}
	if err := c.Tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{keptDir, usedDir}) {
		t.Errorf("got %v", got)
	}
	if got := names(t, filepath.Join(dir, keptDir)); !slices.Equal(got, []string{"new"}) {
		t.Errorf("got %v", got)
	}
	d, err := fsx.Open(dir, fsx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := c.use(t.Context(), d, "new"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, usedDir, "new"))
	if err != nil || time.Since(info.ModTime()) > 10*time.Minute {
		t.Errorf("the mark is %v old, %v", time.Since(info.ModTime()), err)
	}
	if DefaultRoom < maxBlob || DefaultAge < 24*time.Hour {
		t.Error("the default room is too small")
	}
}

// The files of a folder are outputs: regular files with portable names, a bounded number.
func TestOutputFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "out", "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range maxFiles {
		if err := os.WriteFile(filepath.Join(dir, "out", fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := outputFiles(dir, []string{"out/"}); err != nil || len(all) != maxFiles {
		t.Errorf("got %d files, %v", len(all), err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "out", "sub", ".mm"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "out", "sub", ".mm", "state"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := outputFiles(dir, []string{"out/"}); err != nil || len(all) != maxFiles {
		t.Errorf("with the state of a store: got %d files, %v", len(all), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "out", "sub", "one"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := outputFiles(dir, []string{"out/"}); err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Errorf("got %v", err)
	}
	if _, err := outputFiles(dir, []string{"none/"}); err == nil {
		t.Error("a missing folder has no error")
	}
	if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "out", "l")); err != nil {
		t.Skip(err)
	}
	if _, err := outputFiles(dir, []string{"out/"}); err == nil {
		t.Error("a symbolic link is an output")
	}
}
