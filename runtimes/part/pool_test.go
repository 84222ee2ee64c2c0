package part

import (
	"slices"
	"testing"
)

// Excess vectors become means of neighbors, as in PyTorch's AdaptiveAvgPool1d; fewer are unchanged.
func TestPool(t *testing.T) {
	x := []float32{0, 10, 1, 11, 2, 12, 3, 13, 4, 14} // five of two numbers
	for limit, want := range map[int][]float32{
		5: x, 9: x, 1: {2, 12},
		2: {1, 11, 3, 13}, // 0 1 2, 2 3 4
		3: {0.5, 10.5, 2, 12, 3.5, 13.5},
		4: {0.5, 10.5, 1.5, 11.5, 2.5, 12.5, 3.5, 13.5},
	} {
		if got := Pool(x, 2, limit); !slices.Equal(got, want) {
			t.Errorf("%d of five: %v, want %v", limit, got, want)
		}
	}
}

func TestMean(t *testing.T) {
	got, err := Mean([][]float32{{1, 2}, {3, 6}, {2, 1}})
	if err != nil || !slices.Equal(got, []float32{2, 3}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, lists := range [][][]float32{nil, {{1, 2}, {1}}} {
		if got, err := Mean(lists); err == nil {
			t.Errorf("%v: %v", lists, got)
		}
	}
}

// The middle one of an odd number belongs to the second half; one is both halves.
func TestHalves(t *testing.T) {
	for _, c := range []struct {
		lists [][]float32
		want  []float32
	}{
		{[][]float32{{1, 2}, {3, 6}}, []float32{1, 2, 3, 6}},
		{[][]float32{{1, 2}, {3, 6}, {5, 0}}, []float32{1, 2, 4, 3}},
		{[][]float32{{1, 2}}, []float32{1, 2, 1, 2}},
	} {
		if got, err := Halves(c.lists); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, %v; want %v", c.lists, got, err, c.want)
		}
	}
	for _, lists := range [][][]float32{nil, {{1, 2}, {1}}} {
		if got, err := Halves(lists); err == nil {
			t.Errorf("%v: %v", lists, got)
		}
	}
}
