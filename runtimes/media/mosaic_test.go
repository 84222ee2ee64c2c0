package media

import (
	"math"
	"testing"

	"mm-abi.org/mm/core/preprocess"
)

// TestMosaicCounts compares the numbers of vectors with those of the processors of
// LLaVA-NeXT (24 features a side) and LLaVA-OneVision (27, nine tiles at most).
func TestMosaicCounts(t *testing.T) {
	next := preprocess.Tiles{Size: 336, Choose: "pinpoints", Pinpoints: [][2]int{{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}}}
	one := preprocess.Tiles{Size: 384, Choose: "pinpoints"}
	for rows := range 6 {
		for columns := range 6 {
			one.Pinpoints = append(one.Pinpoints, [2]int{384 * (rows + 1), 384 * (columns + 1)})
		}
	}
	for _, c := range []struct{ w, h, next, one int }{{640, 480, 2340, 2929}, {300, 900, 2376, 2997}, {64, 48, 1368, 1317}, {1600, 1200, 0, 7309}} {
		m := mosaicOf(next.Grid(c.w, c.h), c.w, c.h, 24, 0)
		if got := m.count(); c.next > 0 && got != c.next {
			t.Errorf("%d × %d: %d vectors, want %d", c.w, c.h, got, c.next)
		}
		m = mosaicOf(one.Grid(c.w, c.h), c.w, c.h, 27, 9)
		if got := m.count(); got != c.one {
			t.Errorf("%d × %d: %d vectors, want %d", c.w, c.h, got, c.one)
		}
	}
}

// TestMosaicJoin: vectors of one number that count the features of the whole image.
func TestMosaicJoin(t *testing.T) {
	tile := func(from ...float32) []float32 { return append(from, -1) }
	lists := [][]float32{tile(0, 1, 10, 11), tile(2, 3, 12, 13), tile(100, 101, 102, 103)} // one row of two tiles, and the overview
	m := mosaicOf(preprocess.Grid{Rows: 1, Columns: 2}, 90, 45, 2, 0)
	got, err := m.join(lists, 1)
	want := []float32{100, 101, 102, 103, 0, 1, 2, 3, -1, 10, 11, 12, 13, -1}
	if err != nil || len(got) != m.count() || !near(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	m = mosaicOf(preprocess.Grid{Rows: 1, Columns: 2}, 45, 45, 2, 0) // half of it is padding
	got, err = m.join(lists, 1)
	want = []float32{100, 101, 102, 103, 1, 2, -1, 11, 12, -1}
	if err != nil || len(got) != m.count() || !near(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	m.into = [2]int{1, 1} // the mean of four
	if got, err = m.join(lists, 1); err != nil || !near(got, []float32{100, 101, 102, 103, 6.5, -1}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range [][][]float32{lists[:2], {lists[0], lists[1], lists[2][:4]}} {
		if got, err := m.join(bad, 1); err == nil {
			t.Errorf("got %v, want an error", got)
		}
	}
}

func near(a, b []float32) bool {
	for i := range a {
		if len(a) != len(b) || math.Abs(float64(a[i]-b[i])) > 1e-6 {
			return false
		}
	}
	return len(a) == len(b)
}
