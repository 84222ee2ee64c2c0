package decode

import (
	"fmt"
	"math"
	"strings"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/scene"
)

// Sample is a prompt and what it asks for: as many numbers as the decoder gives,
// row by row.
type Sample struct {
	Prompt string
	Target []float32
}

// Source makes samples: a pure function of i, safe for use by many goroutines at
// once.
type Source interface {
	Make(i int) Sample
}

// Judge is a [Source] that can tell whether what a decoder made is what sample i
// asks for.
type Judge interface {
	Judge(i int, made []float32) []Verdict
}

// Verdict is one thing that was asked for, in words, and what was made of it.
type Verdict struct {
	Kind      string // of the question, such as shapes/colour
	Want, Got string
}

// The splits of the sources.
const (
	trainSplit = "train"
	heldSplit  = "held"
)

// open opens one split of the data, and says how many examples there are before
// they come again; 0: they never do.
func (d Data) open(split, dir string) (Source, int, error) {
	if d.Speech != nil {
		return d.Speech.open(split, dir)
	}
	s := *d.Scene
	if s.Pixels == 0 {
		s.Pixels = 96
	}
	if len(s.Kinds) == 0 {
		s.Kinds = []string{scene.Shapes}
	}
	src, err := scene.New(scene.Options{Split: split, Seed: s.Seed, Kinds: s.Kinds, Size: s.Pixels, Plain: true})
	if err != nil {
		return nil, 0, train.At("/data/scene", err)
	}
	if one := src.Make(0); one.Draw == "" {
		return nil, 0, train.Atf("/data/scene/kinds", "there are no words that ask for %s", one.Kind)
	}
	return pictures{src}, s.Examples, nil
}

// pictures is the plain scenes of train/dataset/scene: the target is the picture,
// pixel by pixel, from -1 for dark to 1.
type pictures struct{ *scene.Source }

// Make implements [Source].
func (p pictures) Make(i int) Sample {
	s := p.Source.Make(i)
	out := Sample{Prompt: s.Draw, Target: make([]float32, len(s.RGB))}
	for k, v := range s.RGB {
		out.Target[k] = float32(v)/127.5 - 1
	}
	return out
}

// Judge implements [Judge], by measuring the picture's shapes or bars; of texts
// nothing is told.
func (p pictures) Judge(i int, made []float32) []Verdict {
	s := p.Source.Make(i)
	switch {
	case len(s.Truth.Shapes) > 0:
		return judgeScene(s, Pixels(made), s.W, s.H)
	case len(s.Truth.Bars) > 0:
		return judgeChart(s, Pixels(made))
	}
	return nil
}

// Pixels are the numbers of a picture, -1 to 1, as bytes.
func Pixels(made []float32) []byte {
	out := make([]byte, len(made))
	for k, v := range made {
		out[k] = uint8(min(max(math.RoundToEven(float64(v)*127.5+127.5), 0), 255))
	}
	return out
}

// judgeScene holds the picture rgb [h, w, 3] against the scene that was asked
// for, by measuring its shapes: how many there are, and which shape, colour and
// place each has, as one answer each; "all" is all of them together.
func judgeScene(s scene.Scene, rgb []byte, w, h int) []Verdict {
	var found []scene.Shape
	for _, m := range scene.Measure(rgb, w, h).Shapes {
		found = append(found, m.Shape)
	}
	var all []Verdict
	for _, one := range []struct {
		kind string
		of   func(scene.Shape) string
	}{
		{"all", func(s scene.Shape) string { return s.Shape + " " + s.Colour + " " + s.Place }},
		{"colour", func(s scene.Shape) string { return s.Colour }},
		{"count", func(scene.Shape) string { return "1" }},
		{"place", func(s scene.Shape) string { return s.Place }},
		{"shape", func(s scene.Shape) string { return s.Shape }},
		{"size", func(s scene.Shape) string { return s.Size }},
	} {
		list := func(shapes []scene.Shape) string {
			var parts []string
			for _, s := range shapes {
				parts = append(parts, one.of(s))
			}
			return strings.Join(parts, ", ")
		}
		all = append(all, Verdict{fmt.Sprintf("%s/%s", s.Kind, one.kind), list(s.Truth.Shapes), list(found)})
	}
	return all
}

// judgeChart holds the picture rgb [s.H, s.W, 3] against the chart that was asked
// for: how many bars there are, of which colour, and how high, in parts of the
// highest one; a height that is right within a twentieth is told as that which was
// wanted.
func judgeChart(s scene.Scene, rgb []byte) []Verdict {
	found := scene.MeasureBars(rgb, s.W, s.H)
	var want, got [3][]string // how high, of which colour, both
	for i, b := range s.Truth.Bars {
		should := scene.HeightOf(b.Value, s.Truth.Bars)
		high, colour := "none", "none"
		if i < len(found) {
			colour = found[i].Colour
			if high = fmt.Sprint(found[i].Height); found[i].Near(should) {
				high = fmt.Sprint(should)
			}
		}
		for k, pair := range [3][2]string{{fmt.Sprint(should), high}, {b.Colour, colour}, {b.Colour + fmt.Sprint(should), colour + high}} {
			want[k], got[k] = append(want[k], pair[0]), append(got[k], pair[1])
		}
	}
	count, is := fmt.Sprint(len(s.Truth.Bars)), fmt.Sprint(len(found))
	all := []Verdict{{s.Kind + "/all", count + ":" + strings.Join(want[2], ","), is + ":" + strings.Join(got[2], ",")}, {s.Kind + "/count", count, is}}
	for k, kind := range []string{"heights", "colours"} {
		all = append(all, Verdict{s.Kind + "/" + kind, strings.Join(want[k], ","), strings.Join(got[k], ",")})
	}
	return all
}
