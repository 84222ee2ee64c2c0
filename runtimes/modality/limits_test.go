package modality

import (
	"testing"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/runtimes"
)

func TestLimits(t *testing.T) {
	state := func(n int) error {
		_, err := elements(runtimes.Uint8, []int64{1, int64(n)})
		return err
	}
	joined := func(n int) error { return joinable((n+1)/2, 2) }
	pieces := func(n int) error {
		w := &preprocess.Wave{Rate: 1000, Samples: make([]float32, n)}
		for i := range w.Samples {
			w.Samples[i] = 1
		}
		got, err := Pieces(w, 1)
		if err == nil && len(got) != n {
			t.Errorf("got %d pieces, want %d", len(got), n)
		}
		return err
	}
	for _, c := range []struct {
		name  string
		check func(int) error
		limit int
	}{{"maxState", state, maxState}, {"maxJoined", joined, maxJoined}, {"maxPieces", pieces, maxPieces}} {
		if err := c.check(c.limit); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.check(c.limit+1) == nil {
			t.Errorf("%s: %d accepted", c.name, c.limit+1)
		}
	}
}
