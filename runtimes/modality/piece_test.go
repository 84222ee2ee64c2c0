package modality_test

import (
	"slices"
	"testing"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/runtimes/modality"
)

// A sound is cut in pieces of one length, the last filled up with silence; what
// was given stays as it is.
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
