package qa_test

import (
	"testing"

	"mm-abi.org/mm/train/dataset/qa"
	"mm-abi.org/mm/train/dataset/scene"
	"mm-abi.org/mm/train/dataset/sound"
)

// Answers are compared ignoring case and space, and numbers off a scale may be
// a twentieth off.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		answer, right string
		same, near    bool
	}{
		{" 42", "40", false, true}, {" 43", "40", false, false}, {"38", "40", false, true}, {"37.9", "40", false, false},
		{"40", " 40", true, true}, {"many", "40", false, false}, {"", "0", false, false}, {"0", "0", true, true},
		{" A red Circle\n", "a red circle", true, false}, {"a red  circle", "a red circle", false, false},
	} {
		turn := qa.Turn{Answer: c.right}
		if turn.Correct(c.answer) != c.same || turn.Near(c.answer) != c.near {
			t.Errorf("%q for %q: correct %v, near %v", c.answer, c.right, turn.Correct(c.answer), turn.Near(c.answer))
		}
	}
	for kind, want := range map[string]bool{"charts/value": true, "charts/highest": false, "value": false, "charts/value ±5%": false} {
		if (qa.Turn{Kind: kind}).Measured() != want {
			t.Errorf("%s: %v", kind, !want)
		}
	}
	if !qa.Matches([]string{"a", "charts/*"}, "charts/value") || qa.Matches([]string{"charts"}, "charts/value") || qa.Matches(nil, "x") {
		t.Error("patterns match prefixes of a kind")
	}
}

// The other example is beyond all evaluated ones and of the same source.
func TestAway(t *testing.T) {
	for n := 1; n < 20; n++ {
		for sources := 1; sources < 4; sources++ {
			if a := qa.Away(n, sources); a < n || a%sources != 0 || a >= n+sources {
				t.Errorf("%d of %d: %d", n, sources, a)
			}
		}
	}
}

// Scenes and clips become examples with images, frames and samples, captions,
// and each question under its kind.
func TestSources(t *testing.T) {
	pictures, err := qa.Pictures(scene.Options{Kinds: []string{scene.Charts, scene.Video}, Frames: 3})
	if err != nil {
		t.Fatal(err)
	}
	sounds, err := qa.Sounds(sound.Options{Kinds: []string{sound.Tones}})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for i := range 12 {
		e := pictures.Make(i)
		if e.Modality != qa.Image || e.Raster == nil || len(e.Raster.Pix) != 3*128*128 || e.Caption == "" || (e.Kind == scene.Video) != (len(e.Frames) == 3) {
			t.Errorf("picture %d: %+v", i, e)
		}
		for _, q := range e.Turns {
			kinds[q.Kind] = true
			if q.Ask == "" || q.Answer == "" {
				t.Errorf("picture %d: %+v", i, q)
			}
		}
	}
	e := sounds.Make(1)
	if e.Modality != qa.Audio || e.Wave == nil || e.Wave.Rate != sound.Rate || len(e.Wave.Samples) == 0 || len(e.Turns) == 0 || !kinds["charts/value"] || !kinds["video/motion"] {
		t.Errorf("%+v; questions %v", e, kinds)
	}
	if _, err := qa.Pictures(scene.Options{Kinds: []string{"smells"}}); err == nil {
		t.Error("accepted scenes of smells")
	}
	if _, err := qa.Sounds(sound.Options{Kinds: []string{"smells"}}); err == nil {
		t.Error("accepted sounds of smells")
	}
}

func TestLookName(t *testing.T) {
	if a, b := qa.Actual.Name(), qa.Another.Name(); a != "its own" || b != "another" {
		t.Errorf("names %q and %q", a, b)
	}
}
