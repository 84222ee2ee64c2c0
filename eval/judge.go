package eval

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/qa"
	"mm-abi.org/mm/train/dataset/scene"
)

// jury holds the judges and their counts.
type jury struct {
	Answerer
	asked  []string
	sees   bool // the build has an encoder for pictures
	counts map[sitting]train.Tally
}

// sitting is a judge together with a canvas.
type sitting struct {
	judge  Judge
	canvas Canvas
}

// judge judges an image by its scene.
func (j *jury) judge(ctx context.Context, c Canvas, s scene.Scene, png []byte) error {
	r, err := preprocess.DecodeImage(png)
	if err != nil {
		return fmt.Errorf("decoding the image: %w", err)
	}
	j.measure(j.tally(Pixels, c), s, r)
	if !j.sees {
		return nil
	}
	turns := slices.DeleteFunc(qa.Picture(s).Turns, func(t qa.Turn) bool { return openEnded(t.Kind) || len(j.asked) > 0 && !qa.Matches(j.asked, t.Kind) })
	return askAll(ctx, j, []talk.Part{{Type: abi.Image, Data: png}}, turns, j.tally(Eye, c))
}

// reference judges the judges with the reference image.
func (j *jury) reference(ctx context.Context, s scene.Scene) error {
	png, err := encode(&preprocess.Raster{W: s.W, H: s.H, C: 3, Pix: s.RGB})
	if err != nil {
		return err
	}
	return j.judge(ctx, Given, s, png)
}

func (j *jury) tally(by Judge, c Canvas) train.Tally {
	at := sitting{by, c}
	if j.counts[at] == nil {
		j.counts[at] = train.Tally{}
	}
	return j.counts[at]
}

// verdict returns the scores, ordered by canvas, then by judge.
func (j *jury) verdict() (out []Judged) {
	for _, c := range []Canvas{Drawn, Another, Given} {
		for _, by := range []Judge{Pixels, Eye} {
			if t := j.counts[sitting{by, c}]; len(t) > 0 {
				out = append(out, Judged{by, c, t.Scores()})
			}
		}
	}
	return out
}

// openEnded reports a question whose answer the prompt does not fix: a title.
func openEnded(kind string) bool { return kind == scene.Charts+"/"+scene.AskRead }

// measure counts the features in the pixels.
func (j *jury) measure(t train.Tally, s scene.Scene, r *preprocess.Raster) {
	switch s.Kind {
	case scene.Shapes:
		countShapes(t, s.Truth.Shapes, visible(r))
	case scene.Charts:
		countBars(t, s.Truth.Bars, scene.MeasureBars(r.Pix, r.W, r.H))
	}
}

// leastFit is the minimum of [scene.Measured].Fit for a figure to count as a shape.
const leastFit = 500

// visible returns the shapes that are visible in an image.
func visible(r *preprocess.Raster) (seen []scene.Shape) {
	for _, m := range scene.Measure(r.Pix, r.W, r.H).Shapes {
		if m.Fit >= leastFit {
			seen = append(seen, m.Shape)
		}
	}
	return seen
}

// All is the kind of completely correct images: as many shapes as requested, each with its
// shape, color and place; as many bars, each with its height.
const All = "all"

// countShapes compares the requested shapes with the visible ones, paired by the most features
// in common.
func countShapes(t train.Tally, want, seen []scene.Shape) {
	pairs := pair(want, seen)
	count := func(kind, answer string, right bool) { t.Add(scene.Shapes+"/"+kind, answer, right) }
	correct := len(want) == len(seen)
	count(scene.AskCount, fmt.Sprint(len(want)), correct)
	var names []string
	for i, w := range want {
		var s scene.Shape // a missing shape has no correct feature
		if pairs[i] >= 0 {
			s = seen[pairs[i]]
		}
		count(scene.AskShape, w.Shape, s.Shape == w.Shape)
		count(scene.AskColour, w.Colour, s.Colour == w.Colour)
		count(scene.AskPlace, w.Place, s.Place == w.Place)
		count(scene.AskSize, w.Size, s.Size == w.Size)
		correct = correct && alike(w, s) == 3
		names = append(names, w.Colour+" "+w.Shape+" "+w.Place)
	}
	count(All, strings.Join(names, ", "), correct)
}

// alike returns the number of equal features of two shapes: shape, color and place.
func alike(a, b scene.Shape) (n int) {
	for _, same := range []bool{a.Shape == b.Shape, a.Colour == b.Colour, a.Place == b.Place} {
		if same {
			n++
		}
	}
	return n
}

// pair returns for each requested shape the index of its visible one, or -1.
func pair(want, seen []scene.Shape) []int {
	out := make([]int, len(want))
	for i := range out {
		out[i] = -1
	}
	used := make([]bool, len(seen))
	for most := 3; most >= 0; most-- {
		for i, w := range want {
			for k, s := range seen {
				if out[i] < 0 && !used[k] && alike(w, s) == most {
					out[i], used[k] = k, true
				}
			}
		}
	}
	return out
}

// countBars compares the bars of a chart from the left: a height is correct within a twentieth
// of the highest bar, and a chart is if all heights and colors are.
func countBars(t train.Tally, want []scene.Bar, seen []scene.MeasuredBar) {
	correct := len(want) == len(seen)
	t.Add(scene.Charts+"/"+scene.AskCount, fmt.Sprint(len(want)), correct)
	var names []string
	for i, b := range want {
		should := scene.HeightOf(b.Value, want)
		near := i < len(seen) && seen[i].Near(should)
		t.Add(scene.Charts+"/height"+qa.WithinTwentieth, fmt.Sprint(should/100), near)
		hue := i < len(seen) && seen[i].Colour == b.Colour
		t.Add(scene.Charts+"/"+scene.AskColour, b.Colour, hue)
		correct = correct && near && hue
		names = append(names, fmt.Sprint(b.Value))
	}
	t.Add(scene.Charts+"/"+All, strings.Join(names, ", "), correct)
}
