package sound_test

import (
	"slices"
	"testing"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/train/dataset/sound"
)

// Spoken returns a short sound at the modules' rate, loud in the middle and
// silent at its ends, and a new copy on each call.
func TestSpoken(t *testing.T) {
	data, digit := sound.Spoken()
	w, err := preprocess.DecodeWAV(data)
	if err != nil {
		t.Fatal(err)
	}
	loudest := func(v []float32) float32 { return max(slices.Max(v), -slices.Min(v)) }
	n := len(w.Samples)
	if w.Rate != sound.Rate || n < sound.Rate/2 || n > sound.Rate || len(data) > 40<<10 || digit != "7" {
		t.Errorf("%q: %d samples at %d Hz, %d bytes", digit, n, w.Rate, len(data))
	}
	if quiet := loudest(w.Samples[:2000]); quiet > 0.01 || loudest(w.Samples[n-2000:]) > 0.01 || loudest(w.Samples) < 0.2 {
		t.Errorf("peak %v at the start, %v in total", quiet, loudest(w.Samples))
	}
	clear(data)
	if again, _ := sound.Spoken(); again[0] != 'R' {
		t.Error("not a copy")
	}
}
