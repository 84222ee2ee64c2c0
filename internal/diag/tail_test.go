package diag_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
)

func TestTail(t *testing.T) {
	for _, c := range []struct {
		limit  int
		writes []string
		want   string
	}{
		{8, []string{"abc", "def"}, "abcdef"},
		{8, []string{"abcdefgh"}, "abcdefgh"},
		{8, []string{"abcdefgh", "i"}, "bcdefghi"},
		{8, []string{strings.Repeat("x", 100) + "12345678"}, "12345678"},
		{80, []string{"a\x1b[0m\n", "b\n\n"}, "a\\x1b[0m\nb"},
		{0, []string{"abc"}, ""},
		{8, nil, ""},
	} {
		w := &diag.Tail{Limit: c.limit}
		for _, text := range c.writes {
			if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("%q: %d, %v", text, n, err)
			}
		}
		if got := w.String(); got != c.want {
			t.Errorf("%d bytes of %q: got %q, want %q", c.limit, c.writes, got, c.want)
		}
	}
}
