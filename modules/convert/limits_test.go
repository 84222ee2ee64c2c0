package convert

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

func TestLimits(t *testing.T) {
	for more, ok := range map[int64]bool{0: true, 1: false} {
		if err := copyCard(&bytes.Buffer{}, bytes.NewReader(make([]byte, maxCard+more))); (err == nil) != ok {
			t.Errorf("card of maxCard+%d bytes: %v", more, err)
		}
		folder := t.TempDir()
		config := filepath.Join(folder, "config.json")
		if err := errors.Join(os.WriteFile(config, nil, 0o600), os.Truncate(config, maxSettings+more)); err != nil {
			t.Fatal(err)
		}
		if _, err := IsVision(folder); errors.Is(err, fsx.ErrTooLarge) == ok {
			t.Errorf("config.json of maxSettings+%d bytes: %v", more, err)
		}
		path := filepath.Join(t.TempDir(), "tokenizer.bin")
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, maxVocabulary+more)); err != nil {
			t.Fatal(err)
		}
		if _, err := readVocabulary(path); errors.Is(err, fsx.ErrTooLarge) == ok {
			t.Errorf("vocabulary of maxVocabulary+%d bytes: %v", more, err)
		}
	}
}
