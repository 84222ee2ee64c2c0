package scene_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mm-abi.org/mm/train/dataset/scene"
)

// Each answer equals one computed from the words of its question and the truth.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, split := range []string{scene.Train, scene.Held} {
		for _, plain := range []bool{false, true} {
			s := source(t, scene.Options{Split: split, Plain: plain, Size: 64, Frames: 3})
			kinds := map[string]int{}
			for i := range 600 {
				sc := s.Make(i)
				for _, q := range sc.Questions {
					kinds[q.Kind]++
					if want := answer(sc, q); want != q.Answer {
						t.Errorf("%s %s %d: %s %q: %q, want %q", split, sc.Kind, i, q.Kind, q.Ask, q.Answer, want)
					}
					if q.Ask != strings.ToLower(q.Ask) || q.Answer != strings.ToLower(q.Answer) || q.Answer == "" {
						t.Errorf("%s %d: %+v", sc.Kind, i, q)
					}
				}
				if (sc.Draw != "") != (plain && sc.Kind != scene.Video) {
					t.Errorf("%s %d: prompt %q", sc.Kind, i, sc.Draw)
				}
				prompt(t, sc)
			}
			if len(kinds) != 14 {
				t.Errorf("%d kinds of questions: %v", len(kinds), kinds)
			}
		}
	}
}

// answer computes the answer of a question from its words and the truth.
func answer(sc scene.Scene, q scene.Pair) string {
	switch sc.Kind {
	case scene.Shapes:
		return aboutShapes(sc.Truth.Shapes, q)
	case scene.Charts:
		return aboutChart(sc.Truth, q)
	case scene.Video:
		return aboutClip(sc.Truth, q)
	}
	text := strings.ToLower(sc.Truth.Text)
	switch q.Kind {
	case scene.AskRead:
		return text
	case scene.AskCount:
		return strconv.Itoa(len(text))
	case scene.AskColour:
		return sc.Truth.Colour
	}
	return "unknown kind"
}

// prompt checks that a prompt names everything in the scene.
func prompt(t *testing.T, sc scene.Scene) {
	t.Helper()
	var want []string
	switch {
	case sc.Draw == "":
	case sc.Kind == scene.Shapes:
		for _, s := range sc.Truth.Shapes {
			want = append(want, fmt.Sprintf("a %s %s %s at the %s", s.Size, s.Colour, s.Shape, s.Place))
		}
	case sc.Kind == scene.Charts:
		for _, b := range sc.Truth.Bars {
			want = append(want, strings.ToLower(b.Label)+" "+strconv.Itoa(b.Value))
		}
	default:
		want = []string{" " + strings.ToLower(sc.Truth.Text) + " in " + sc.Truth.Colour}
	}
	for _, w := range want {
		if !strings.Contains(sc.Draw, w) {
			t.Errorf("%q lacks %q", sc.Draw, w)
		}
	}
}

// aboutChart answers a question about bars.
func aboutChart(truth scene.Truth, q scene.Pair) string {
	bars := slices.Clone(truth.Bars)
	slices.SortFunc(bars, func(a, b scene.Bar) int { return a.Value - b.Value })
	// Labels may also be other words ("a", "is"): the last word names a bar,
	// and the one before "higher".
	words := strings.Fields(strings.TrimSuffix(q.Ask, "?"))
	var named []scene.Bar
	for i, word := range words {
		last := i == len(words)-1 || i+1 < len(words) && words[i+1] == "higher"
		for _, b := range truth.Bars {
			if last && strings.ToLower(b.Label) == word {
				named = append(named, b)
			}
		}
	}
	switch q.Kind {
	case scene.AskCaption:
		return fmt.Sprintf("a bar chart with %d bars", len(bars))
	case scene.AskCount:
		return strconv.Itoa(len(bars))
	case scene.AskHighest:
		return strings.ToLower(bars[len(bars)-1].Label)
	case scene.AskLowest:
		return strings.ToLower(bars[0].Label)
	case scene.AskValue:
		return strconv.Itoa(named[0].Value)
	case scene.AskHigher:
		return map[bool]string{true: "yes", false: "no"}[named[0].Value > named[1].Value]
	case scene.AskColour:
		if len(named) == 0 {
			return truth.Bars[0].Colour
		}
		return named[0].Colour
	case scene.AskRead:
		return truth.Title
	}
	return "unknown kind"
}

// aboutClip answers a question about a video.
func aboutClip(truth scene.Truth, q scene.Pair) string {
	s := truth.Shapes[0]
	switch q.Kind {
	case scene.AskCaption:
		return aboutShapes(truth.Shapes, q) + strings.TrimPrefix(truth.Motion, "it")
	case scene.AskMotion:
		return truth.Motion
	case scene.AskWay:
		return strings.TrimPrefix(truth.Motion, "it moves ")
	case scene.AskShape:
		return s.Shape
	case scene.AskColour:
		if strings.Contains(q.Ask, "at the end") {
			return truth.Then
		}
		return s.Colour
	}
	return "unknown kind"
}

// aboutShapes answers a question about shapes.
func aboutShapes(shapes []scene.Shape, q scene.Pair) string {
	var found []scene.Shape
	for _, s := range shapes {
		fits := true
		for _, c := range scene.Colours() {
			fits = fits && (!strings.Contains(q.Ask, " "+c) || s.Colour == c)
		}
		for _, n := range scene.ShapeNames() {
			fits = fits && (!strings.Contains(q.Ask, " "+n) || s.Shape == n)
		}
		if fits {
			found = append(found, s)
		}
	}
	one := func(f func(scene.Shape) string) string {
		if len(found) != 1 {
			return "ambiguous"
		}
		return f(found[0])
	}
	switch q.Kind {
	case scene.AskCaption:
		var parts []string
		for _, s := range shapes {
			a := "a "
			if s.Colour == "orange" {
				a = "an "
			}
			parts = append(parts, a+s.Colour+" "+s.Shape)
		}
		all := strings.Join(parts, ", ")
		if i := strings.LastIndex(all, ", "); i >= 0 {
			all = all[:i] + " and " + all[i+2:]
		}
		return all
	case scene.AskCount:
		return strconv.Itoa(len(shapes))
	case scene.AskThere:
		if len(found) > 0 {
			return "yes"
		}
		return "no"
	case scene.AskShape:
		return one(func(s scene.Shape) string { return s.Shape })
	case scene.AskColour:
		return one(func(s scene.Shape) string { return s.Colour })
	case scene.AskPlace:
		return one(func(s scene.Shape) string { return s.Place })
	case scene.AskSize:
		return one(func(s scene.Shape) string { return s.Size })
	}
	return "unknown kind"
}

// The share of a question's most frequent answer is the accuracy of guessing
// without the image: the chance level of docs/SCENES.md (go test -v -run
// Chance).
func TestChance(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	t.Parallel()
	limits := map[string]int{ // maximum percentage
		"shapes caption": 3, "shapes count": 36, "shapes shape": 17, "shapes colour": 17, "shapes place": 16, "shapes size": 56, "shapes there": 56,
		"charts caption": 22, "charts count": 22, "charts highest": 8, "charts lowest": 8, "charts value": 10, "charts higher": 56, "charts colour": 17, "charts read": 15,
		"words read": 3, "words count": 30, "words colour": 17, "digits read": 6, "digits count": 32, "digits colour": 17,
		"video caption": 3, "video motion": 18, "video way": 32, "video shape": 18, "video colour": 18,
	}
	for _, split := range []string{scene.Train, scene.Held} {
		s := source(t, scene.Options{Split: split, Size: 64, Frames: 2})
		answers := map[string]map[string]int{}
		for i := range 4000 {
			sc := s.Make(i)
			for _, q := range sc.Questions {
				at := sc.Kind + " " + q.Kind
				if answers[at] == nil {
					answers[at] = map[string]int{}
				}
				answers[at][q.Answer]++
			}
		}
		for _, at := range slices.Sorted(maps.Keys(answers)) {
			n, most, top := 0, 0, ""
			for _, a := range slices.Sorted(maps.Keys(answers[at])) {
				c := answers[at][a]
				if n += c; c > most {
					most, top = c, a
				}
			}
			t.Logf("%-5s %-15s %5d questions, %4d answers, %4.1f %% %q", split, at, n, len(answers[at]), 100*float64(most)/float64(n), top)
			if limit, ok := limits[at]; !ok || 100*most > limit*n {
				t.Errorf("%s %s: %q is %d of %d answers", split, at, top, most, n)
			}
		}
		if len(answers) != len(limits) {
			t.Errorf("%d kinds of questions, want %d", len(answers), len(limits))
		}
	}
}
