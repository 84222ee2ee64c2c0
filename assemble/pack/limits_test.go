package pack

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

func TestLimits(t *testing.T) {
	for more, ok := range map[int64]bool{0: true, 1: false} {
		path := filepath.Join(t.TempDir(), "about.md")
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, maxText+more)); err != nil {
			t.Fatal(err)
		}
		if _, err := (&packing{opt: Options{About: path}}).about(); errors.Is(err, fsx.ErrTooLarge) == ok {
			t.Errorf("text of maxText+%d bytes: %v", more, err)
		}
	}
}
