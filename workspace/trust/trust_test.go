package trust

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMaxKey(t *testing.T) {
	for more, want := range []bool{true, false} {
		file := filepath.Join(t.TempDir(), "k.pub")
		if err := os.WriteFile(file, make([]byte, MaxKey+more), 0o644); err != nil {
			t.Fatal(err)
		}
		f := &File{Keys: map[string]Key{"k": {File: file}}}
		if _, err := f.pem("k"); (err == nil) != want {
			t.Errorf("MaxKey+%d: %v", more, err)
		}
	}
}
