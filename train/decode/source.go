package decode

import (
	"fmt"
	"math"
	"strings"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/scene"
)

// Sample is a prompt and its target, of the decoder's output size, row by row.
type Sample struct {
	Prompt string
	Target []float32
}

// Source makes samples. Make is a pure function of i and safe for concurrent
// use.
type Source interface {
	Make(i int) Sample
}

// Judge is a [Source] that can judge whether an output is right for sample i.
type Judge interface {
	Judge(i int, output []float32) []Verdict
}

// Verdict compares one property of the target, in words, with that of the
// output.
type Verdict struct {
	Kind      string // of the question, such as shapes/colour
	Want, Got string
}

// The splits of a source.
const (
	trainSplit = "train"
	heldSplit  = "held"
)

// open opens one split of the data and returns the number of examples in an
// epoch; 0: unlimited.
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
		return nil, 0, train.Atf("/data/scene/kinds", "no prompts for %s", one.Kind)
	}
	return pictures{src}, s.Examples, nil
}

// pictures is the plain scenes of train/dataset/scene. The target is the image,
// pixel by pixel, from -1 (dark) to 1.
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

// Judge implements [Judge] by measuring the image's shapes or bars. It does not
// judge text.
func (p pictures) Judge(i int, output []float32) []Verdict {
	s := p.Source.Make(i)
	switch {
	case len(s.Truth.Shapes) > 0:
		return judgeScene(s, Pixels(output), s.W, s.H)
	case len(s.Truth.Bars) > 0:
		return judgeChart(s, Pixels(output))
	}
	return nil
}

// Pixels converts the numbers of an image, -1 to 1, to bytes.
func Pixels(output []float32) []byte {
	out := make([]byte, len(output))
	for k, v := range output {
		out[k] = uint8(min(max(math.RoundToEven(float64(v)*127.5+127.5), 0), 255))
	}
	return out
}

// judgeScene compares the image rgb [h, w, 3] with the scene by measuring its
// shapes: their number and the shape, color and place of each, as one verdict
// each; "all" combines them.
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

// judgeChart compares the image rgb [s.H, s.W, 3] with the chart: the number,
// colors and heights of the bars, relative to the highest. A height within a
// twentieth of the target counts as the target.
func judgeChart(s scene.Scene, rgb []byte) []Verdict {
	found := scene.MeasureBars(rgb, s.W, s.H)
	var want, got [3][]string // heights, colors, both
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
