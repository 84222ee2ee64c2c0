package infer

import (
	"slices"
	"testing"
)

// TestChoose: tokens of streams come first, then half of the room for the
// shortest text and the rest in the order of arrival.
func TestChoose(t *testing.T) {
	m := &Model{farthest: 1000}
	read := func(before, rows int, at presence) *reading {
		return &reading{s: &Session{m: m, presence: at}, before: before, rows: rows}
	}
	text := func(before, rows int) *reading { return read(before, rows, outside) }
	token := func(rows int) *reading { return read(50, rows, asking) }
	block := func(rows int) *reading {
		r := text(0, rows)
		r.blocks = []block{{rows: rows, span: rows, mutual: true}}
		return r
	}
	for name, c := range map[string]struct {
		live    []*reading
		streams int
		want    []int
	}{
		"nothing":                           {},
		"a text":                            {live: []*reading{text(0, 1000)}, want: []int{maxBatch}},
		"texts":                             {live: []*reading{text(0, 1000), text(0, 900)}, want: []int{128, 128}},
		"texts that fit":                    {live: []*reading{text(0, 100), text(0, 90)}, want: []int{100, 90}},
		"a short text is soon read":         {live: []*reading{text(0, 1000), text(0, shortStep)}, want: []int{32, 32}},
		"and no other":                      {live: []*reading{text(0, 1000), text(0, shortStep+1)}, want: []int{191, 65}},
		"tokens":                            {live: []*reading{token(1), token(5)}, streams: 2, want: []int{1, 5}},
		"a token and a text":                {live: []*reading{text(0, 1000), token(1)}, streams: 1, want: []int{15, 1}},
		"a text far in":                     {live: []*reading{text(1000, 1000), token(1)}, streams: 1, want: []int{7, 1}},
		"a text very far in":                {live: []*reading{text(9000, 1000), token(1)}, streams: 1, want: []int{leastPart, 1}},
		"a token, two texts":                {live: []*reading{text(0, 1000), token(1), text(0, 20)}, streams: 1, want: []int{16, 1, 15}},
		"a token, four texts":               {live: []*reading{text(0, 1000), token(1), text(0, 900), text(0, 900), text(0, 950)}, streams: 1, want: []int{80, 1, 79, 0, 0}},
		"a stream that asks later":          {live: []*reading{text(0, 1000)}, streams: 1, want: []int{16}},
		"many streams":                      {live: []*reading{text(0, 1000)}, streams: 32, want: []int{96}},
		"forced tokens are like a text":     {live: []*reading{token(streamRows + 1), token(streamRows)}, streams: 2, want: []int{33, streamRows}},
		"rows that are not divided":         {live: []*reading{block(500), token(1)}, streams: 1, want: []int{500, 1}},
		"rows that are not divided wait":    {live: []*reading{text(0, 100), block(500)}, want: []int{100, 0}},
		"the oldest are not divided either": {live: []*reading{block(500), text(0, 100)}, want: []int{500, 100}},
	} {
		var q schedule
		part := q.choose(c.live, c.streams)
		for i, r := range c.live {
			if got := r.to - r.read; got != c.want[i] || slices.Contains(part, r) != (got > 0) {
				t.Errorf("%s: %d rows of reading %d, want %d", name, got, i, c.want[i])
			}
		}
	}
}
