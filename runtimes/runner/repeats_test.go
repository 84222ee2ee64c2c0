package runner

import (
	"slices"
	"testing"
)

func TestRepeats(t *testing.T) {
	text := make([]int32, 200)
	for i := range text {
		text[i] = int32(i)
	}
	cycle := func(period, n int) []int32 {
		out := slices.Clone(text[:50])
		for i := range n {
			out = append(out, int32(1000+i%period))
		}
		return out
	}
	for name, c := range map[string]struct {
		ids  []int32
		want bool
	}{
		"nothing": {nil, false}, "text": {text, false}, "one token": {cycle(1, minRepeat), true}, "one token less": {cycle(1, minRepeat-1), false},
		"a phrase": {cycle(7, minRepeat), true}, "the longest": {cycle(maxPeriod, minRepeats*maxPeriod), true},
		"the longest once less": {cycle(maxPeriod, minRepeats*maxPeriod-1), false}, "too long": {cycle(maxPeriod+1, 5*maxPeriod), false},
		"over": {append(cycle(3, 90), 1), false},
	} {
		if got := repeats(c.ids); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
