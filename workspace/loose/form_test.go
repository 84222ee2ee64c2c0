package loose

import (
	"errors"
	"testing"
)

// Several faults of a file are one line, without escapes.
func TestReasonOfSeveral(t *testing.T) {
	err := errors.Join(errors.New("tensor a is missing"), errors.New("tensor b is missing"))
	if got, want := reasonOf(err), "tensor a is missing; tensor b is missing"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
