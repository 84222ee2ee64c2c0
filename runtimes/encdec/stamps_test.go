package encdec

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rules has two texts (0, 1), the stop 2, no time stamps 3 and the time stamps 4 to 9.
var rules = &stamping{begin: 4, stop: 2, maxInitial: 2, step: 0.02}

// The ids that the rules allow after others.
func TestApply(t *testing.T) {
	for name, c := range map[string]struct {
		scores []float32
		ids    []int32
		want   []int
	}{
		"the first is a time stamp, not late": {make([]float32, 10), nil, []int{4, 5, 6}},
		"after the first, text":               {make([]float32, 10), []int32{5}, []int{0, 1, 2}},
		"after text, a later time stamp":      {[]float32{9, 9, 9, 9, 0, 0, 0, 0, 0, 0}, []int32{5, 0}, []int{0, 1, 2, 6, 7, 8, 9}},
		"after an end, its pair or the stop":  {[]float32{0, 0, 9, 0, 0, 0, 0, 0, 0, 0}, []int32{5, 0, 7}, []int{2, 7, 8, 9}},
		"after a pair, text":                  {make([]float32, 10), []int32{5, 0, 7, 7}, []int{0, 1, 2}},
		"together likelier than text":         {[]float32{1, 0, 0, 0, 0, 0, 0, 0, 0, 0}, []int32{5, 0}, []int{6, 7, 8, 9}},
	} {
		rules.apply(c.scores, c.ids)
		var got []int
		for i, v := range c.scores {
			if !math.IsInf(float64(v), -1) {
				got = append(got, i)
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// Windows of 50 frames, 100 a second: one time stamp is two frames.
func TestSegments(t *testing.T) {
	for name, c := range map[string]struct {
		ids  []int32
		want []Segment
		next int
	}{
		"nothing":           {nil, []Segment{{End: 0.5}}, 50},
		"no end":            {[]int32{4, 0}, []Segment{{End: 0.5, IDs: []int32{4, 0}}}, 50},
		"one end":           {[]int32{4, 0, 6}, []Segment{{End: 0.04, IDs: []int32{4, 0, 6}}}, 50},
		"an end at the end": {[]int32{4, 0, 6, 6, 1, 8}, []Segment{{End: 0.04, IDs: []int32{4, 0, 6}}, {Start: 0.04, End: 0.08, IDs: []int32{6, 1, 8}}}, 50},
		"cut off":           {[]int32{4, 0, 6, 7, 1}, []Segment{{End: 0.04, IDs: []int32{4, 0, 6, 7}}}, 4},
	} {
		got, next := rules.segments(c.ids, 50, 100)
		if d := cmp.Diff(c.want, got, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })); d != "" || next != c.next {
			t.Errorf("%s: next %d, want %d: %s", name, next, c.next, d)
		}
	}
}

func TestSubtitles(t *testing.T) {
	list := []Segment{{Start: 0, End: 1.5, Text: "a <b>\n\n& c"}, {Text: "\n"}, {Start: 3661.25, End: 3662, Text: "d --> e"}}
	var srt, vtt strings.Builder
	if err := SRT(&srt, list); err != nil {
		t.Fatal(err)
	}
	if err := VTT(&vtt, list); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff("1\n00:00:00,000 --> 00:00:01,500\na <b> & c\n\n2\n01:01:01,250 --> 01:01:02,000\nd -> e\n\n", srt.String()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff("WEBVTT\n\n00:00:00.000 --> 00:00:01.500\na &lt;b&gt; &amp; c\n\n01:01:01.250 --> 01:01:02.000\nd --&gt; e\n\n", vtt.String()); d != "" {
		t.Error(d)
	}
}

// Long sounds are cut where they are quiet.
func TestPieces(t *testing.T) {
	loud := make([]float32, 250)
	for i := range loud {
		loud[i] = 1
	}
	for i := 80; i < 90; i++ {
		loud[i] = 0
	}
	for size, want := range map[int][][2]int{0: {{0, 250}}, 250: {{0, 250}}, 200: {{0, 138}, {138, 250}}, 100: {{0, 86}}} {
		got := pieces(loud, size, 100)
		if size == 100 {
			got = got[:1]
			want = want[:1]
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("size %d: %s", size, d)
		}
	}
}
