package standard

import (
	"strings"
	"testing"
)

// TestLimits holds each limit on either side.
func TestLimits(t *testing.T) {
	g, err := newGuard()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		limit int
		try   func(n int) error
	}{
		{"maxFindings", maxFindings, func(n int) error { _, err := g.Look(strings.Repeat("a@b.org ", n), nil); return err }},
		{"maxTerms", maxTerms, func(n int) error {
			_, err := g.Look("a", strings.Split(strings.Repeat("b,", n-1)+"b", ","))
			return err
		}},
		{"maxTerm", maxTerm, func(n int) error { _, err := g.Look("a", []string{strings.Repeat("b", n)}); return err }},
	} {
		if err := c.try(c.limit); err != nil {
			t.Errorf("%s at the limit: %v", c.name, err)
		}
		if err := c.try(c.limit + 1); err == nil {
			t.Errorf("%s: %d accepted", c.name, c.limit+1)
		}
	}
}
