package diag

import (
	"errors"
	"io"
	"testing"
)

// An error keeps its cause, its hint and its outermost exit code; nil stays nil.
func TestUsage(t *testing.T) {
	if Hinted(nil, "x") != nil || Usage(nil) != nil || Exiting(ExitMissed, nil) != nil {
		t.Error("nil became an error")
	}
	err := Exiting(ExitRefused, Usagef("name: %w", Hinted(io.EOF, "hint")))
	var h interface{ Hint() string }
	var e Exited
	if !errors.Is(err, io.EOF) || !errors.As(err, &h) || h.Hint() != "hint" || !errors.As(err, &e) || e.Code != ExitRefused || err.Error() != "name: EOF" {
		t.Errorf("got %v, hint %v, exit code %d", err, h, e.Code)
	}
	if errors.As(Usage(io.EOF), &e); e.Code != ExitUsage {
		t.Errorf("usage: exit code %d", e.Code)
	}
}
