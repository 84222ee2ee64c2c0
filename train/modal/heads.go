package modal

import (
	"errors"
	"fmt"
	"slices"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/scene"
	"mm-abi.org/mm/train/dataset/sound"
)

// Target selects the labels of a head.
type Target string

// The targets.
const (
	// Reading: the signs of an image or a sound, a row for each (scene.Slots,
	// sound.Places).
	Reading Target = "reading"
	// Marks: the sign whose center is in a cell of an image, a row for each
	// cell. The eight cells around it have no target.
	Marks Target = "marks"
	// Hues: the colors of the marks, in the same cells.
	Hues Target = "hues"
	// Order: the position of the mark in the reading, in the same cells.
	Order Target = "order"
	// Heights and Amounts: the level and the value of a bar, in the cell of the
	// center of the bar's top.
	Heights Target = "heights"
	Amounts Target = "amounts"
	// Values: the value of which a digit is part, in the rows of a reading.
	Values Target = "values"
	// Levels: the height of a bar (scene.Levels), in the rows of a reading.
	Levels Target = "levels"
	// First, Second and Third: the first signs of a thing's row of a reading,
	// in each of its rows, so that every vector of the thing identifies it.
	First  Target = "first"
	Second Target = "second"
	Third  Target = "third"
)

// Reads reports whether the recipe trains an encoder by signs.
func (r Recipe) Reads() bool {
	return slices.ContainsFunc(r.Modalities, func(m Modality) bool { return len(m.Heads) > 0 })
}

// validateHeads reports the faults of a recipe with heads.
func (r Recipe) validateHeads() error {
	var errs []error
	fault := func(path string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, train.Atf(path, format, args...))
		}
	}
	fault("/stage", r.Stage != Encode, "stage %s: heads require stage encoder", r.Stage)
	fault("/modalities", len(r.Modalities) != 1, "%d modalities, want one with heads", len(r.Modalities))
	fault("/core", r.Core != Core{}, "core is not used with heads")
	fault("/data/text", r.Data.Text != nil, "text is not used with heads")
	for i, m := range r.Modalities {
		place := fmt.Sprintf("/modalities/%d", i)
		fault(place+"/projector", m.Projector.Net != nil || m.Projector.From != "", "projector is not used with heads")
		fault(place+"/encoder", m.Encoder.Net == nil, "heads require encoder.net")
		for j, h := range m.Heads {
			at := fmt.Sprintf("%s/heads/%d", place, j)
			rows, _ := h.Of.shape(m.Modality)
			fault(at+"/of", rows == 0, "unknown target %q of %s, want one of %s", h.Of, m.Modality, targetsOf(m.Modality))
			fault(at+"/weight", !(h.Weight >= 0 && h.Weight <= 1000), "weight out of range: %v", h.Weight)
			if n := m.Encoder.Net; n != nil {
				at := slices.Index(n.Outputs, h.Output)
				fault(place+fmt.Sprintf("/heads/%d/output", j), at < 1, "output %q is unknown or the encoder's: outputs are %v", h.Output, n.Outputs)
			}
		}
	}
	return errors.Join(errs...)
}

// shape returns the rows of a target, negative if any square is allowed, and
// its classes, 0 if the medium has no such target.
func (t Target) shape(m Medium) (rows, classes int) {
	switch {
	case t == Reading && m == Image:
		return scene.Slots, len(scene.Signs())
	case t == Reading && m == Audio:
		return sound.Places, len(sound.Signs())
	case (t == Marks || t == Hues) && m == Image:
		return -1, len(scene.Signs())
	case t == Order && m == Image:
		return -1, scene.Slots
	case t == Heights && m == Image:
		return -1, scene.Levels
	case t == Amounts && m == Image:
		return -1, scene.Most + 1
	case t == Values && m == Image:
		return scene.Slots, scene.Most + 1
	case t == Levels && m == Image:
		return scene.Slots, scene.Levels
	case (t == First || t == Second || t == Third) && m == Image:
		return scene.Slots, len(scene.Signs())
	}
	return 0, 0
}

func targetsOf(m Medium) []Target {
	return slices.DeleteFunc([]Target{Reading, Marks, Hues, Order, Heights, Amounts, Values, Levels, First, Second, Third}, func(t Target) bool { rows, _ := t.shape(m); return rows == 0 })
}

// signs maps the classes of a medium's readings to their signs and back.
type signs struct {
	list    []string
	classes map[string]int32
}

func signsOf(m Medium) signs {
	s := signs{list: scene.Signs(), classes: map[string]int32{}}
	if m == Audio {
		s.list = sound.Signs()
	}
	for i, name := range s.list {
		s.classes[name] = int32(i)
	}
	return s
}

// targets writes the labels of a head; negative: no target.
func (s signs) targets(t Target, e Example, to []int32) {
	switch t {
	case Reading:
		for i, name := range readingOf(e) {
			to[i] = s.classes[name]
		}
	case Levels:
		for i := range to {
			to[i] = int32(e.Scene.Level(i))
		}
	case Values:
		for i := range to {
			to[i] = int32(e.Scene.Value(i))
		}
	case First, Second, Third:
		s.owners(e, slices.Index([]Target{First, Second, Third}, t), to)
	case Marks:
		s.marks(e.Scene, to)
	case Hues, Order, Heights, Amounts:
		for i := range to {
			to[i] = -1
		}
		for _, m := range e.Scene.Marks {
			if v := s.marked(t, e.Scene, m); v >= 0 {
				to[cell(e.Scene, m, len(to))] = v
			}
		}
	}
}

// owners returns the sign at place k of each row of a thing.
func (s signs) owners(e Example, k int, to []int32) {
	r := readingOf(e)
	for i := range to {
		to[i] = -1
		if row := i / scene.Row; row > 0 && row <= len(e.Scene.Truth.Shapes)+len(e.Scene.Truth.Bars) {
			to[i] = s.classes[r[row*scene.Row+k]]
		}
	}
}

// marked returns the label of a mark; negative: none.
func (s signs) marked(t Target, sc *scene.Scene, m scene.Mark) int32 {
	switch {
	case t == Order:
		return int32(m.Slot)
	case t == Hues && m.Colour != "":
		return s.classes[m.Colour]
	case t == Heights && m.Sign == scene.BarTop:
		return int32(sc.Level(m.Slot))
	case t == Amounts && m.Sign == scene.BarTop:
		return int32(sc.Value(m.Slot))
	}
	return -1
}

// marks fills the cells of a square grid.
func (s signs) marks(sc *scene.Scene, to []int32) {
	g := side(len(to))
	clear(to)
	for _, m := range sc.Marks {
		at := cell(sc, m, len(to))
		x, y := at%g, at/g
		for v := max(y-1, 0); v <= min(y+1, g-1); v++ {
			for u := max(x-1, 0); u <= min(x+1, g-1); u++ {
				to[v*g+u] = -1
			}
		}
	}
	for _, m := range sc.Marks {
		to[cell(sc, m, len(to))] = s.classes[m.Sign]
	}
}

// cell returns the cell of a mark in a square grid.
func cell(sc *scene.Scene, m scene.Mark, cells int) int {
	g := side(cells)
	return min(max(m.Y*g/sc.H, 0), g-1)*g + min(max(m.X*g/sc.W, 0), g-1)
}

// side returns the root of a square number.
func side(n int) int {
	g := 0
	for g*g < n {
		g++
	}
	return g
}

// readingOf returns the signs of an example.
func readingOf(e Example) []string {
	if e.Clip != nil {
		return e.Clip.Reading()
	}
	return e.Scene.Reading()
}

// judge counts in t the properties of an example that a reading has right.
func judge(e Example, r []string, t train.Tally) {
	if e.Clip != nil {
		for _, v := range e.Clip.Judge(r) {
			t.Add(v.Kind, v.Want, v.Right)
		}
		return
	}
	for _, v := range e.Scene.Judge(r) {
		t.Add(v.Kind, v.Want, v.Right)
	}
}
