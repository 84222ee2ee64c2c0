package export

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

func TestLimits(t *testing.T) {
	dir := t.TempDir()
	for more, ok := range map[int64]bool{0: true, 1: false} {
		if ok && testing.Short() {
			continue // reads 256 MiB
		}
		path := filepath.Join(dir, "file")
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, maxGraphFile+more)); err != nil {
			t.Fatal(err)
		}
		if _, err := (Sink{Dir: dir}).ReadFile("file"); (err == nil) != ok || !ok && !errors.Is(err, fsx.ErrTooLarge) {
			t.Errorf("file of maxGraphFile+%d bytes: %v", more, err)
		}
	}
}
