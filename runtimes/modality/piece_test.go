package modality_test

import (
	"slices"
	"testing"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/runtimes/modality"
)

// Silence around a sound that is too long for one piece, and silent pieces, are removed: the
// audible part is in one piece, wherever it was.
func TestPiecesAudible(t *testing.T) {
	const rate, size = 1000, 300
	at := func(n int, loud ...int) *preprocess.Wave {
		w := &preprocess.Wave{Rate: rate, Samples: make([]float32, n)}
		for i := range w.Samples {
			w.Samples[i] = float32(i%2) / 1e4 // a hum
		}
		for _, from := range loud {
			for i := range 100 {
				w.Samples[from+i] = float32(1 + from/100)
			}
		}
		return w
	}
	for name, c := range map[string]struct {
		w    *preprocess.Wave
		want []int // where the pieces begin
	}{
		"in the middle":       {at(1000, 500), []int{490}},
		"over a border":       {at(1000, 250), []int{240}},
		"at the beginning":    {at(1000, 0), []int{0}},
		"at the end":          {at(1000, 900), []int{700}},
		"two, in one piece":   {at(1000, 500, 600), []int{490}},
		"two, far apart":      {at(2000, 100, 1500), []int{100, 1300}},
		"all of a piece":      {at(1000, 500, 600, 700), []int{500}},
		"silence":             {at(700), []int{0, 300, 600}},
		"short":               {at(300, 0), []int{0}},
		"longer than a piece": {at(1000, 100, 200, 300, 400), []int{100, 400}},
	} {
		got, err := modality.Pieces(c.w, size*1000/rate)
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s: %d pieces, want %d; %v", name, len(got), len(c.want), err)
			continue
		}
		for i, p := range got {
			want := make([]float32, size)
			copy(want, c.w.Samples[c.want[i]:])
			if !slices.Equal(p.Samples, want) {
				t.Errorf("%s: piece %d does not begin at %d", name, i, c.want[i])
			}
		}
	}
}

// A sound is cut into pieces of one length, the last padded with silence; the input is unchanged.
func TestPieces(t *testing.T) {
	w := &preprocess.Wave{Rate: 1000, Samples: []float32{1, 2, 3, 4, 5, 6, 7}}
	for ms, want := range map[int][][]float32{
		0: {{1, 2, 3, 4, 5, 6, 7}}, 3: {{1, 2, 3}, {4, 5, 6}, {7, 0, 0}}, 7: {{1, 2, 3, 4, 5, 6, 7}}, 9: {{1, 2, 3, 4, 5, 6, 7, 0, 0}},
	} {
		pieces, err := modality.Pieces(w, ms)
		var got [][]float32
		for _, p := range pieces {
			if got = append(got, p.Samples); p.Rate != 1000 {
				t.Errorf("%d ms: %d Hz", ms, p.Rate)
			}
		}
		if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%d ms: %v, %v", ms, got, err)
		}
	}
	if !slices.Equal(w.Samples, []float32{1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("the sound is %v", w.Samples)
	}
	for name, c := range map[string]struct {
		w  preprocess.Wave
		ms int
	}{
		"none": {preprocess.Wave{Rate: 1000}, 3}, "no rate": {preprocess.Wave{Samples: []float32{1}}, 3},
		"too many": {preprocess.Wave{Rate: 1000, Samples: make([]float32, 5000)}, 1},
	} {
		if got, err := modality.Pieces(&c.w, c.ms); err == nil {
			t.Errorf("%s: %d pieces", name, len(got))
		}
	}
}
