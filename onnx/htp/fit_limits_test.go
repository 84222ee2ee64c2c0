package htp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLimits has a table and a folder at each limit, and one beyond it.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: files at the limits")
	}
	const head = "soc,model,arch,vtcm_mib,source\n"
	rows := func(n int) error {
		_, err := ReadChips(strings.NewReader(head + strings.Repeat("A,1,v79,8,x\n", n)))
		return err
	}
	bytes := func(n int) error {
		_, err := ReadChips(strings.NewReader(head + "A,1,v79,8," + strings.Repeat("x", n-len(head)-10)))
		return err
	}
	dir, have := t.TempDir(), 1 // the folder itself counts
	files := func(n int) error {
		for ; have < n; have++ {
			if err := os.Symlink(dir, filepath.Join(dir, fmt.Sprint(have))); err != nil {
				t.Fatal(err)
			}
		}
		_, err := FindLibraries(dir)
		return err
	}
	for _, c := range []struct {
		name  string
		limit int
		read  func(n int) error
		want  string
	}{
		{"maxRows", maxRows - 1, rows, "4096 rows"}, // and the header
		{"maxTable", maxTable, bytes, "1048576 bytes"},
		{"maxFiles", maxFiles, files, "more than 20000 files"},
	} {
		if err := c.read(c.limit); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := c.read(c.limit + 1); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s + 1: %v", c.name, err)
		}
	}
	// A build beyond the limit of a library, maxLibrary bytes, is not looked for.
	const build = "v2.47.0.260601114230"
	path := filepath.Join(t.TempDir(), "libQnnHtp.so")
	if err := os.WriteFile(path, []byte("xxx"+build), 0o600); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]string{int64(3 + len(build)): build, int64(2 + len(build)): ""} {
		if got, _, err := buildOf(path, limit); err != nil || got != want {
			t.Errorf("of %d bytes: %q, %v", limit, got, err)
		}
	}
}
