package api_test

import (
	"testing"

	"mm-abi.org/mm/serve/api"
)

// A stated seed is kept, and requests without one differ.
func TestSeed(t *testing.T) {
	for _, n := range []int64{0, 7, -1} {
		if got := api.Seed(&n); got != uint64(n) {
			t.Errorf("seed %d: got %d", n, got)
		}
	}
	if a, b := api.Seed(nil), api.Seed(nil); a == b {
		t.Errorf("two requests have seed %d", a)
	}
}
