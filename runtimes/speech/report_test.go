package speech

import (
	"testing"
	"time"
)

// A report sums the length of its pieces at its sample rate, and their computing times.
func TestReport(t *testing.T) {
	r := Report{Rate: 4}
	r.Add(Piece{Text: "a", Samples: make([]float32, 6), Computed: 250 * time.Millisecond, IDs: 3})
	r.Add(Piece{Text: "b", Samples: make([]float32, 2), Computed: 50 * time.Millisecond, Dropped: "x"})
	if r.Seconds != 2 || r.MS != 300 {
		t.Errorf("got %v s, %v ms, want 2 s, 300 ms", r.Seconds, r.MS)
	}
	want := []PieceReport{{Text: "a", IDs: 3, Seconds: 1.5, MS: 250}, {Text: "b", Dropped: "x", Seconds: 0.5, MS: 50}}
	if len(r.Pieces) != 2 || r.Pieces[0] != want[0] || r.Pieces[1] != want[1] {
		t.Errorf("got %+v, want %+v", r.Pieces, want)
	}
}
