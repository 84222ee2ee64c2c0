package runner

import (
	"math"
	"slices"
	"testing"
)

func TestTop(t *testing.T) {
	logits := []float32{1, 5, 3, 5, -2, 4}
	for n, want := range [][]int32{nil, {1}, {1, 3}, {1, 3, 5}, {1, 3, 5, 2}} {
		if got := top(logits, n); !slices.Equal(got, want) {
			t.Errorf("%d: got %v, want %v", n, got, want)
		}
	}
	if got := top(logits, 9); len(got) != 6 {
		t.Errorf("got %v", got)
	}
}

func TestLogSum(t *testing.T) {
	if got, want := logSum([]float32{0, 0, float32(math.Inf(-1))}), math.Log(2); math.Abs(got-want) > 1e-12 {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := logSum([]float32{1000}); got != 1000 {
		t.Errorf("got %v, want 1000", got)
	}
}
