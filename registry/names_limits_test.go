package registry

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oras.land/oras-go/v2/errdef"

	"mm-abi.org/mm/internal/fsx"
)

func TestLimits(t *testing.T) {
	for more, want := range []bool{true, false} {
		if err := checkRef(strings.Repeat("a", maxRef+more)); (err == nil) != want {
			t.Errorf("maxRef+%d: %v", more, err)
		}
		path := t.TempDir()
		dir, err := fsx.Open(path, fsx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		index := filepath.Join(path, "index.json")
		if err := errors.Join(os.WriteFile(index, []byte(" "), 0o644), os.Truncate(index, int64(maxIndexBytes+more))); err != nil {
			t.Fatal(err)
		}
		err = newNames(dir, nameOptions{}).View(func(*nameIndex) error { return nil })
		if errors.Is(err, errdef.ErrSizeExceedsLimit) == want {
			t.Errorf("maxIndexBytes+%d: %v", more, err)
		}
	}
}

// TestMaxRereads reads a file that settles at the last try, and one that settles later.
func TestMaxRereads(t *testing.T) {
	for n, want := range map[int]bool{maxRereads: true, maxRereads + 1: false} {
		tries := 0
		err := reread(func() (bool, error) {
			tries++
			return tries == n, nil
		})
		if (err == nil) != want {
			t.Errorf("settled at try %d: %v", n, err)
		}
	}
}
