package window

import "testing"

// TestLimits has a step at the limit of positions, and one beyond it.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		positions, window, context int
		want                       bool
	}{
		{1, maxPositions, 1 << 20, true}, {1, maxPositions + 1, 1 << 20, false}, {maxPositions, maxPositions, 1 << 20, true},
		{1, 64, 64, true}, {1, 65, 64, false}, {0, 64, 64, false}, {64, 64, 64, true}, {65, 64, 64, false}, {1, 0, 64, false},
	} {
		if got := (StepOptions{Positions: c.positions, Window: c.window}).fits(c.context); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for n, want := range map[int]bool{0: false, 1: true, maxPositions: true, maxPositions + 1: false} {
		if got := fits(n, 1<<20); got != want {
			t.Errorf("%d positions: %v", n, got)
		}
	}
}
