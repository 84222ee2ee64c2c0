package sound_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train/dataset/sound"
)

// A saying is a function of split, seed and number; its words are a reader's
// words and are in the prompt, in digits or in words.
func TestSayings(t *testing.T) {
	words := sound.SpokenWords()
	figures := map[string]string{}
	for i, w := range words[:10] {
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
				t.Fatalf("%q: %d words", one.Prompt, len(one.Words))
			}
			for _, w := range one.Words {
				if !slices.Contains(words, w) {
					t.Fatalf("%q: unknown word %q", one.Prompt, w)
				}
				if texts := strings.Contains(one.Prompt, w) || strings.Contains(one.Prompt, figures[w]) && figures[w] != ""; !texts && one.Kind != sound.SayNumbers {
					t.Fatalf("%q lacks %q", one.Prompt, w)
				}
			}
		}
		if kinds[sound.SayDigits] != 1800 || kinds[sound.SayNumbers] != 300 || kinds[sound.SayWords] != 900 {
			t.Errorf("%s: %v", split, kinds)
		}
	}
	if a, b := (sound.Sayings{}).Make(1), (sound.Sayings{Seed: 1}).Make(1); cmp.Equal(a, b) {
		t.Error("equal sayings of two seeds")
	}
	if p := (sound.Sayings{Plain: true}).Make(0).Prompt; !strings.HasPrefix(p, "say ") {
		t.Error(p)
	}
}

// A text of several words is in only one split, and no wording is in both.
func TestSayingsHeld(t *testing.T) {
	texts, wordings := map[string]string{}, map[string]string{}
	for _, split := range []string{sound.Train, sound.Held} {
		for i := range 6000 {
			one := sound.Sayings{Split: split}.Make(i)
			words := strings.Join(one.Words, " ")
			if len(one.Words) > 1 {
				if before := texts[words]; before != "" && before != split {
					t.Fatalf("%q is in both splits", words)
				}
				texts[words] = split
			}
			first, _, _ := strings.Cut(one.Prompt, " ")
			if len(one.Words) == 1 && strings.Count(one.Prompt, " ") > 0 {
				way := strings.Replace(one.Prompt, one.Words[0], "%", 1)
				if way == one.Prompt {
					continue // in digits
				}
				if before := wordings[way]; before != "" && before != split {
					t.Fatalf("%q (%s) is in both splits", way, first)
				}
				wordings[way] = split
			}
		}
	}
	if len(wordings) < 500 {
		t.Errorf("%d wordings", len(wordings))
	}
}

// Numbers are spelled as spoken.
func TestNumbersAreSpelt(t *testing.T) {
	for n, want := range map[int]string{
		0: "zero", 7: "seven", 10: "ten", 19: "nineteen", 20: "twenty", 42: "forty two", 100: "one hundred", 305: "three hundred five",
		999: "nine hundred ninety nine", 610: "six hundred ten",
	} {
		if got := strings.Join(sound.Spelt(n), " "); got != want {
			t.Errorf("%d is spelled %q, want %q", n, got, want)
		}
	}
}
