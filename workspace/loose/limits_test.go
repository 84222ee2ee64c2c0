package loose

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

// A file of the limit would be read: it is only tested that the error differs.
func TestLimits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	for size, large := range map[int64]bool{0: false, maxArray + 1: true} {
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size)); err != nil {
			t.Fatal(err)
		}
		if _, err := (Golden{Inputs: map[string]string{"x": path}}).inputs(nil); errors.Is(err, fsx.ErrTooLarge) != large {
			t.Errorf("array of %d bytes: %v", size, err)
		}
	}
}
