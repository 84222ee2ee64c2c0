//go:build unix

package home

import (
	"os"
	"path/filepath"
	"testing"
)

func TestModes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode               os.FileMode
		writable, readable bool
	}{
		{0o600, false, false}, {0o400, false, false}, {0o611, false, false}, {0o640, false, true}, {0o604, false, true}, {0o644, false, true}, {0o664, false, true}, {0o602, true, false}, {0o666, true, true}, {0o777, true, true},
	} {
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		if w, r := Writable(file) != "", Readable(file); w != c.writable || r != c.readable {
			t.Errorf("%o: writable %v, readable %v", c.mode, w, r)
		}
	}
	if Writable(file+"x") != "" || Readable(file+"x") {
		t.Error("a missing file")
	}
}
