package sound_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train/dataset/sound"
)

// Readings of known clips, and how readings are judged.
func TestReading(t *testing.T) {
	for _, c := range []struct {
		clip sound.Clip
		want string // signs separated by spaces, - for the empty one
	}{
		{sound.Clip{Kind: sound.Tones, Beeps: 3, Pitch: "low"}, "tones 3 low"},
		{sound.Clip{Kind: sound.Tones, Pitch: "rising"}, "tones - rising"},
		{sound.Clip{Kind: sound.Events, Thing: "bell"}, "events - - bell"},
		{sound.Clip{Kind: sound.Digits, Text: "3 7"}, "speech 2 - - 3 7"},
		{sound.Clip{Kind: sound.Human, Text: "9"}, "speech 1 - - 9"},
		{sound.Clip{Kind: sound.Words, Text: "elephant"}, "speech - - - - - - - e l e p h a n t"},
	} {
		want := make([]string, sound.Places)
		for i, sign := range strings.Fields(c.want) {
			if sign != "-" {
				want[i] = sign
			}
		}
		got := c.clip.Reading()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%+v: %s", c.clip, d)
		}
		for i, v := range c.clip.Judge(got) {
			if !v.Right {
				t.Errorf("%s: truth judged wrong", v.Kind)
			}
			if i == 0 && c.clip.Judge(make([]string, sound.Places))[i].Right {
				t.Errorf("%s: empty reading judged right", v.Kind)
			}
		}
		for _, r := range got {
			if !slices.Contains(sound.Signs(), r) {
				t.Errorf("unknown sign %q", r)
			}
		}
	}
	s := open(t, sound.Options{Dir: speech(t), FSDD: people(t)})
	for i := range 40 {
		for _, r := range s.Make(i).Reading() {
			if !slices.Contains(sound.Signs(), r) {
				t.Errorf("clip %d: unknown sign %q", i, r)
			}
		}
	}
}
