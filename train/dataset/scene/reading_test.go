package scene_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train/dataset/scene"
)

// Readings of known scenes.
func TestReading(t *testing.T) {
	chart := scene.Scene{Kind: scene.Charts, Truth: scene.Truth{Top: 100, Title: "cats", Bars: []scene.Bar{{"TEA", 7, "red"}, {"b", 100, "blue"}, {"c", 50, "blue"}}}}
	shapes := scene.Scene{Kind: scene.Shapes, Truth: scene.Truth{Shapes: []scene.Shape{{Shape: "ring", Colour: "pink", Place: "top left", Size: "big"}}}}
	word := scene.Scene{Kind: scene.Words, Truth: scene.Truth{Text: "Elephant", Colour: "green"}}
	for _, c := range []struct {
		scene scene.Scene
		rows  []string // signs separated by spaces, - for the empty one, from row 0
	}{
		{chart, []string{"charts 3 - 1 0 0 cats", "t e a 7 - - red lowest", "b - - 1 0 0 blue highest", "c - - 5 0 - blue"}},
		{shapes, []string{"shapes 1", "big pink ring top_left"}},
		{word, []string{"words 8 green", "e l e p h a n t"}},
		{scene.Scene{Kind: scene.Digits, Truth: scene.Truth{Text: "507", Colour: "red"}}, []string{"digits 3 red", "5 0 7"}},
	} {
		want := make([]string, scene.Slots)
		for i, row := range c.rows {
			for j, sign := range strings.Fields(row) {
				if sign != "-" {
					want[i*scene.Row+j] = strings.ReplaceAll(sign, "_", " ")
				}
			}
		}
		got := c.scene.Reading()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", c.scene.Kind, d)
		}
		for _, v := range c.scene.Judge(got) {
			if !v.Right {
				t.Errorf("%s: truth judged wrong", v.Kind)
			}
		}
		for _, v := range c.scene.Judge(make([]string, scene.Slots)) {
			if v.Right && v.Kind != "shapes/size" {
				t.Errorf("%s: empty reading judged right", v.Kind)
			}
		}
	}
	if chart.Level(scene.Row+3) != 4 || chart.Level(2*scene.Row+3) != scene.Levels-1 || chart.Level(3*scene.Row+3) != 32 ||
		chart.Level(3) != -1 || chart.Level(4*scene.Row+3) != -1 || chart.Level(scene.Row+4) != -1 {
		t.Error("wrong levels of the bars, want 4, 63 and 32 of 64")
	}
	near := chart.Reading()
	copy(near[3*scene.Row+3:], []string{"5", "2", ""})
	for _, v := range chart.Judge(near) {
		if want := v.Kind != "charts/value"; v.Kind == "charts/value ±5%" && !v.Right {
			t.Errorf("52 instead of 50 judged as %v", want)
		}
	}
}

// Every drawn sign is in Signs, its center is in the image, and a text has a
// mark for each letter, from the left.
func TestMarks(t *testing.T) {
	t.Parallel()
	signs := scene.Signs()
	if len(slices.Compact(slices.Sorted(slices.Values(signs)))) != len(signs) || signs[0] != "" {
		t.Errorf("%d signs: want distinct ones, the empty one first", len(signs))
	}
	for _, split := range []string{scene.Train, scene.Held} {
		s := source(t, scene.Options{Split: split})
		for i := range 200 {
			sc := s.Make(i)
			for _, r := range sc.Reading() {
				if !slices.Contains(signs, r) {
					t.Fatalf("unknown sign %q in the reading", r)
				}
			}
			read := sc.Reading()
			for _, m := range sc.Marks {
				if got := m.Sign; m.Slot > 0 && got != "bar" && got != read[m.Slot] {
					t.Errorf("%s scene %d: %q marked at the position of %q", split, i, got, read[m.Slot])
				}
			}
			text := ""
			for _, m := range sc.Marks {
				if !slices.Contains(signs, m.Sign) || m.X < 0 || m.Y < 0 || m.X >= sc.W || m.Y >= sc.H {
					t.Fatalf("%s scene %d: invalid mark %+v", split, i, m)
				}
				text += m.Sign
			}
			if want := strings.ToLower(sc.Truth.Text); want != "" && text != want {
				t.Errorf("%s scene %d: marks of %q are %q", split, i, want, text)
			}
			for j, shape := range sc.Truth.Shapes {
				has := slices.ContainsFunc(sc.Marks, func(m scene.Mark) bool {
					return m == scene.Mark{Sign: shape.Shape, Colour: shape.Colour, X: shape.X, Y: shape.Y, Slot: (j+1)*scene.Row + 2}
				})
				if sc.Kind == scene.Shapes && !has {
					t.Errorf("%s scene %d: missing mark of shape %d", split, i, j)
				}
			}
		}
	}
}

// A thing's slots have its name as owner, except the name itself; other slots
// have none.
func TestOwner(t *testing.T) {
	s := scene.Scene{Kind: scene.Charts, Truth: scene.Truth{Top: 100, Bars: []scene.Bar{{"Cat", 37, "red"}, {"B", 100, "blue"}}}}
	shapes := scene.Scene{Kind: scene.Shapes, Truth: scene.Truth{Shapes: []scene.Shape{{Shape: "ring", Colour: "green", Place: "top", Size: "big"}}}}
	for _, c := range []struct {
		scene scene.Scene
		slot  int
		want  string
	}{
		{s, scene.Row, ""}, {s, scene.Row + 2, ""}, {s, scene.Row + 3, "cat"}, {s, scene.Row + 7, "cat"}, {s, 2*scene.Row + 5, "b"}, {s, 3*scene.Row + 3, ""}, {s, 1, ""},
		{shapes, scene.Row, "green ring"}, {shapes, scene.Row + 1, "ring"}, {shapes, scene.Row + 2, "green"}, {shapes, scene.Row + 3, "green ring"}, {shapes, scene.Row + 4, ""}, {shapes, 0, ""},
	} {
		if got := c.scene.Owner(c.slot); got != c.want {
			t.Errorf("%s, slot %d: %q, want %q", c.scene.Kind, c.slot, got, c.want)
		}
	}
}
