package console

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

// Inputs of the size of a limit are accepted, those a byte longer are not; a question
// without a terminal is an error with a hint.
func TestInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("four"), 0o600); err != nil {
		t.Fatal(err)
	}
	for more, want := range map[int]bool{0: true, 1: false} {
		in := Input{strings.NewReader(strings.Repeat("x", maxPassword+more) + "\n"), io.Discard}
		if _, err := in.PipedPassword(); (err == nil) != want {
			t.Errorf("password of maxPassword+%d bytes: %v", more, err)
		}
		for _, name := range []string{"-", file} {
			data, err := Input{In: strings.NewReader("four")}.Read(name, int64(4-more))
			if want && string(data) != "four" || errors.Is(err, fsx.ErrTooLarge) == want {
				t.Errorf("%s of %d bytes more than the limit: %q, %v", name, more, data, err)
			}
		}
	}
	in := Input{strings.NewReader("\n"), io.Discard}
	if _, err := in.PipedPassword(); err == nil {
		t.Error("accepted an empty password")
	}
	var h interface{ Hint() string }
	if _, err := in.Password("password: ", "set X"); !errors.As(err, &h) || h.Hint() != "set X" || in.Terminal() || !in.Piped() {
		t.Errorf("without a terminal: %v", err)
	}
	if null, err := os.Open(os.DevNull); err != nil || (Input{In: null}).Piped() {
		t.Errorf("%s is piped; %v", os.DevNull, err)
	}
}
