package runtimes

import (
	"slices"
	"testing"
)

func TestLimits(t *testing.T) {
	rank := func(n int) error {
		return Tensor{Type: Uint8, Shape: slices.Repeat([]int64{1}, n), Data: make([]byte, 1)}.Check()
	}
	states := func(n int) error { return (&Grammar{States: make([]State, n)}).Check() }
	for _, c := range []struct {
		name  string
		check func(int) error
		limit int
	}{{"maxRank", rank, maxRank}, {"maxGrammar", states, maxGrammar}} {
		if err := c.check(c.limit); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.check(c.limit+1) == nil {
			t.Errorf("%s: %d accepted", c.name, c.limit+1)
		}
	}
}
