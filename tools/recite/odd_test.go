package main

import (
	"bytes"
	"slices"
	"testing"

	"mm-abi.org/mm/core/preprocess"
)

// Odd inputs differ in each turn and are the same for a seed.
func TestOdd(t *testing.T) {
	for medium, kinds := range map[string]int{"image": len(oddPics), "audio": len(oddSounds)} {
		data := func(seed uint64, i int) []byte {
			s, err := odd(medium, seed)
			if err != nil || s.each != kinds {
				t.Fatal(s.each, err)
			}
			e := s.make(i)
			if len(e.Turns) != len(oddQuestions[medium]) {
				t.Errorf("%s: %d questions", e.Kind, len(e.Turns))
			}
			if e.Raster != nil {
				return e.Raster.Pix
			}
			return preprocess.EncodeWAV(e.Wave)
		}
		var all [][]byte
		for i := range 2 * kinds {
			one := data(1, i)
			if !bytes.Equal(one, data(1, i)) {
				t.Errorf("%s %d: differs from itself", medium, i)
			}
			if slices.ContainsFunc(all, func(b []byte) bool { return bytes.Equal(b, one) }) {
				t.Errorf("%s %d: is an earlier one", medium, i)
			}
			all = append(all, one)
		}
	}
	if _, err := odd("video", 1); err == nil {
		t.Error("odd videos")
	}
}
