package scene_test

import (
	"os"
	"strconv"
	"testing"

	"mm-abi.org/mm/train/dataset/scene"
)

// MeasureBars finds the number, colors and heights of the bars in the
// generator's images.
func TestMeasureBars(t *testing.T) {
	t.Parallel()
	n := 100
	if v, err := strconv.Atoi(os.Getenv("MM_SCENES")); err == nil {
		n = v
	}
	for _, c := range []struct {
		name  string
		opt   scene.Options
		wrong int // at most, of 1,000
	}{
		{"plain", scene.Options{Plain: true}, 5},
		{"camera", scene.Options{}, 10},
		{"held out, camera", scene.Options{Split: scene.Held}, 10},
	} {
		c.opt.Kinds = []string{scene.Charts}
		s := source(t, c.opt)
		wrong, off := 0, 0
		for i := range n {
			sc := s.Make(i)
			bars := scene.MeasureBars(sc.RGB, sc.W, sc.H)
			if !sameBars(bars, sc.Truth.Bars, &off) {
				wrong++
				t.Logf("%s, %d: %+v, found %+v", c.name, i, sc.Truth, bars)
			}
		}
		t.Logf("%s: %d of %d right, heights within %d of 1,000", c.name, n-wrong, n, off)
		if wrong*1000 > c.wrong*n {
			t.Errorf("%s: %d of %d wrong", c.name, wrong, n)
		}
	}
	empty := make([]byte, 3*64*64)
	if bars := scene.MeasureBars(empty, 64, 64); len(bars) != 0 {
		t.Errorf("empty image: %+v", bars)
	}
	scene.MeasureBars([]byte{1, 2, 3}, 1, 1)
	scene.MeasureBars([]byte{1, 2, 3, 250, 250, 250}, 2, 1)
}

// sameBars compares number, colors and heights, the latter within 3 % of the
// highest, and keeps the largest height error.
func sameBars(got []scene.MeasuredBar, want []scene.Bar, off *int) bool {
	if len(got) != len(want) {
		return false
	}
	most := 0
	for _, b := range want {
		most = max(most, b.Value)
	}
	for i, b := range want {
		d := got[i].Height - b.Value*1000/most
		d = max(d, -d)
		if got[i].Colour != b.Colour || d > 30 {
			return false
		}
		*off = max(*off, d)
	}
	return true
}
