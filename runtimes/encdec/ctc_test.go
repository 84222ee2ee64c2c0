package encdec

import (
	"math"
	"slices"
	"testing"
)

// A repetition counts once, unless a blank separates it.
func TestCollapse(t *testing.T) {
	row := func(best ...int) (out []float32) {
		for _, id := range best {
			scores := []float32{-1, -1, -1, -1}
			scores[id] = 2
			out = append(out, scores...)
		}
		return out
	}
	for _, c := range []struct {
		steps []int
		blank int32
		want  []int32
	}{
		{nil, 0, nil},
		{[]int{0, 0}, 0, nil},
		{[]int{1, 1, 0, 1, 2, 2, 3}, 0, []int32{1, 1, 2, 3}},
		{[]int{0, 0, 3, 0, 1}, 3, []int32{0, 0, 1}},
	} {
		if got, err := collapse(row(c.steps...), 4, c.blank); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v: got %v, %v, want %v", c.steps, got, err, c.want)
		}
	}
	if got, err := collapse([]float32{1, 1}, 2, 1); err != nil || !slices.Equal(got, []int32{0}) {
		t.Errorf("equal scores: got %v, %v, want the first", got, err)
	}
	if _, err := collapse([]float32{0, float32(math.NaN())}, 2, 0); err == nil {
		t.Error("NaN: no error")
	}
}
