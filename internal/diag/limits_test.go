package diag

import (
	"strings"
	"testing"
)

// Words of maxWord bytes are compared, longer ones are not.
func TestMaxWord(t *testing.T) {
	for n, near := range map[int]bool{maxWord: true, maxWord + 1: false} {
		word := strings.Repeat("x", n)
		if got, ok := Nearest(word[1:]+"y", []string{word}); ok != near {
			t.Errorf("%d bytes: %q, %v", n, got, ok)
		}
	}
}
