package sound_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train/dataset/sound"
)

// A saying follows from split, seed and number; its words are those that a reader
// has, and stand in the prompt, in figures or in words.
func TestSayings(t *testing.T) {
	known := sound.SpokenWords()
	figures := map[string]string{}
	for i, w := range known[:10] {
		figures[w] = string(rune('0' + i))
	}
	for _, split := range []string{sound.Train, sound.Held} {
		s := sound.Sayings{Split: split, Seed: 4}
		kinds := map[string]int{}
		for i := range 3000 {
			one := s.Make(i)
			if d := cmp.Diff(one, s.Make(i)); d != "" {
				t.Fatal(d)
			}
			kinds[one.Kind]++
			if len(one.Words) < 1 || len(one.Words) > sound.Stretches {
				t.Fatalf("%q is %d words", one.Prompt, len(one.Words))
			}
			for _, w := range one.Words {
				if !slices.Contains(known, w) {
					t.Fatalf("%q: nobody says %q", one.Prompt, w)
				}
				if said := strings.Contains(one.Prompt, w) || strings.Contains(one.Prompt, figures[w]) && figures[w] != ""; !said && one.Kind != sound.SayNumbers {
					t.Fatalf("%q does not ask for %q", one.Prompt, w)
				}
			}
		}
		if kinds[sound.SayDigits] != 1800 || kinds[sound.SayNumbers] != 300 || kinds[sound.SayWords] != 900 {
			t.Errorf("%s: %v", split, kinds)
		}
	}
	if a, b := (sound.Sayings{}).Make(1), (sound.Sayings{Seed: 1}).Make(1); cmp.Equal(a, b) {
		t.Error("two seeds say the same")
	}
	if p := (sound.Sayings{Plain: true}).Make(0).Prompt; !strings.HasPrefix(p, "say ") {
		t.Error(p)
	}
}

// What is said by more than one word is said in one split alone, and no way to
// ask is in both.
func TestSayingsHeld(t *testing.T) {
	said, asked := map[string]string{}, map[string]string{}
	for _, split := range []string{sound.Train, sound.Held} {
		for i := range 6000 {
			one := sound.Sayings{Split: split}.Make(i)
			words := strings.Join(one.Words, " ")
			if len(one.Words) > 1 {
				if before := said[words]; before != "" && before != split {
					t.Fatalf("%q is in both splits", words)
				}
				said[words] = split
			}
			first, _, _ := strings.Cut(one.Prompt, " ")
			if len(one.Words) == 1 && strings.Count(one.Prompt, " ") > 0 {
				way := strings.Replace(one.Prompt, one.Words[0], "%", 1)
				if way == one.Prompt {
					continue // in figures
				}
				if before := asked[way]; before != "" && before != split {
					t.Fatalf("%q (%s) is in both splits", way, first)
				}
				asked[way] = split
			}
		}
	}
	if len(asked) < 500 {
		t.Errorf("%d ways to ask", len(asked))
	}
}

// Numbers are spoken as they are read.
func TestNumbersAreSpelt(t *testing.T) {
	for n, want := range map[int]string{
		0: "zero", 7: "seven", 10: "ten", 19: "nineteen", 20: "twenty", 42: "forty two", 100: "one hundred", 305: "three hundred five",
		999: "nine hundred ninety nine", 610: "six hundred ten",
	} {
		if got := strings.Join(sound.Spelt(n), " "); got != want {
			t.Errorf("%d is spoken %q, not %q", n, got, want)
		}
	}
}
