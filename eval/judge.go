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

// jury is the judges and what they count.
type jury struct {
	Answerer
	asked  []string
	sees   bool // the build has an encoder for pictures
	counts map[sitting]train.Tally
}

// sitting is a judge before one sort of pictures.
type sitting struct {
	judge  Judge
	canvas Canvas
}

// judge has a picture judged by what a scene says should be there.
func (j *jury) judge(ctx context.Context, c Canvas, s scene.Scene, png []byte) error {
	r, err := preprocess.DecodeImage(png)
	if err != nil {
		return fmt.Errorf("reading what was drawn: %w", err)
	}
	j.measure(j.tally(Pixels, c), s, r)
	if !j.sees {
		return nil
	}
	turns := slices.DeleteFunc(qa.Picture(s).Turns, func(t qa.Turn) bool { return unsaid(t.Kind) || len(j.asked) > 0 && !qa.Matches(j.asked, t.Kind) })
	return askAll(ctx, j, []talk.Part{{Type: abi.Image, Data: png}}, turns, j.tally(Eye, c))
}

// given judges the judges, by the picture that the prompt was made of.
func (j *jury) given(ctx context.Context, s scene.Scene) error {
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

// verdict is what was counted: by pictures, then by judges.
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

// unsaid reports a question whose answer the prompt leaves open: a title.
func unsaid(kind string) bool { return kind == scene.Charts+"/"+scene.AskRead }

// measure counts what the pixels show.
func (j *jury) measure(t train.Tally, s scene.Scene, r *preprocess.Raster) {
	switch s.Kind {
	case scene.Shapes:
		countShapes(t, s.Truth.Shapes, visible(r))
	case scene.Charts:
		countBars(t, s.Truth.Bars, scene.MeasureBars(r.Pix, r.W, r.H))
	}
}

// leastFit is what a figure has at least that is a shape ([scene.Measured].Fit).
const leastFit = 500

// visible are the shapes that the pixels of a picture show.
func visible(r *preprocess.Raster) (seen []scene.Shape) {
	for _, m := range scene.Measure(r.Pix, r.W, r.H).Shapes {
		if m.Fit >= leastFit {
			seen = append(seen, m.Shape)
		}
	}
	return seen
}

// All is the kind of what is right as a whole: as many shapes as were asked for,
// each in its shape, its colour and its place; as many bars, each of its height.
const All = "all"

// countShapes compares the shapes that were asked for with those that are there.
// Each that was asked for is compared with one of them, the pairs that have most
// in common first.
func countShapes(t train.Tally, want, seen []scene.Shape) {
	pairs := pair(want, seen)
	count := func(kind, answer string, right bool) { t.Add(scene.Shapes+"/"+kind, answer, right) }
	whole := len(want) == len(seen)
	count(scene.AskCount, fmt.Sprint(len(want)), whole)
	var said []string
	for i, w := range want {
		var s scene.Shape // what is missing has nothing right
		if pairs[i] >= 0 {
			s = seen[pairs[i]]
		}
		count(scene.AskShape, w.Shape, s.Shape == w.Shape)
		count(scene.AskColour, w.Colour, s.Colour == w.Colour)
		count(scene.AskPlace, w.Place, s.Place == w.Place)
		count(scene.AskSize, w.Size, s.Size == w.Size)
		whole = whole && alike(w, s) == 3
		said = append(said, w.Colour+" "+w.Shape+" "+w.Place)
	}
	count(All, strings.Join(said, ", "), whole)
}

// alike is how much of shape, colour and place two shapes have in common.
func alike(a, b scene.Shape) (n int) {
	for _, same := range []bool{a.Shape == b.Shape, a.Colour == b.Colour, a.Place == b.Place} {
		if same {
			n++
		}
	}
	return n
}

// pair finds for each shape that was asked for the one that stands for it; -1:
// none is left.
func pair(want, seen []scene.Shape) []int {
	out := make([]int, len(want))
	for i := range out {
		out[i] = -1
	}
	taken := make([]bool, len(seen))
	for most := 3; most >= 0; most-- {
		for i, w := range want {
			for k, s := range seen {
				if out[i] < 0 && !taken[k] && alike(w, s) == most {
					out[i], taken[k] = k, true
				}
			}
		}
	}
	return out
}

// countBars compares the bars of a chart from the left: a height is right within
// a twentieth of the highest bar's, and a chart as a whole with every height and
// every colour.
func countBars(t train.Tally, want []scene.Bar, seen []scene.MeasuredBar) {
	whole := len(want) == len(seen)
	t.Add(scene.Charts+"/"+scene.AskCount, fmt.Sprint(len(want)), whole)
	var said []string
	for i, b := range want {
		should := scene.HeightOf(b.Value, want)
		near := i < len(seen) && seen[i].Near(should)
		t.Add(scene.Charts+"/height"+qa.WithinTwentieth, fmt.Sprint(should/100), near)
		hue := i < len(seen) && seen[i].Colour == b.Colour
		t.Add(scene.Charts+"/"+scene.AskColour, b.Colour, hue)
		whole = whole && near && hue
		said = append(said, fmt.Sprint(b.Value))
	}
	t.Add(scene.Charts+"/"+All, strings.Join(said, ", "), whole)
}
