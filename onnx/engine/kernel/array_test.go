package kernel

import "testing"

func TestCount(t *testing.T) {
	ones := func(n int) []int {
		shape := make([]int, n)
		for i := range shape {
			shape[i] = 1
		}
		return shape
	}
	for _, c := range []struct {
		name     string
		at, over []int
	}{
		{"MaxRank", ones(MaxRank), ones(MaxRank + 1)},
		{"elements", []int{1<<31 - 1}, []int{1 << 16, 1 << 16}},
		{"sign", []int{0, 5}, []int{-1, 5}},
	} {
		if _, err := Count(c.at); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if n, err := Count(c.over); err == nil {
			t.Errorf("%s: counted %d elements of %v", c.name, n, c.over)
		}
	}
}
