package qnnfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

func TestLimits(t *testing.T) {
	for more, ok := range map[int64]bool{0: true, 1: false} {
		if err := embeddable("c.bin", maxEmbed+more); (err == nil) != ok {
			t.Errorf("context of maxEmbed+%d bytes: %v", more, err)
		}
		path := filepath.Join(t.TempDir(), "chips.csv")
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, maxChips+more)); err != nil {
			t.Fatal(err)
		}
		if _, err := Chips(path); errors.Is(err, fsx.ErrTooLarge) == ok {
			t.Errorf("table of maxChips+%d bytes: %v", more, err)
		}
	}
}
