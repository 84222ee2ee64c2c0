// Package qa is questions about pictures and sounds: those of train/dataset/scene
// and train/dataset/sound as examples of one form, and what counts as the right
// answer. Training on them (train/modal) and asking an assembled build
// (eval) begin here, so that both ask the same.
package qa

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/train/dataset/scene"
	"mm-abi.org/mm/train/dataset/sound"
)

// Medium is what comes in, named as the core's markers around it are.
type Medium string

// The media.
const (
	Image Medium = "image"
	Audio Medium = "audio"
)

// Look is what an evaluation shows with a question.
type Look string

// What may be shown.
const (
	Own     Look = ""        // what the question is about
	Another Look = "another" // the input of another example
	Nothing Look = "nothing" // none
)

// Name is the look in words.
func (l Look) Name() string {
	if l == Own {
		return "its own"
	}
	return string(l)
}

// Away is how far off the example lies whose input is shown in place of the own
// one: behind all n that are asked about, and of the same of so many sources
// that take turns.
func Away(n, sources int) int { return (n + sources - 1) / sources * sources }

// Turn is a question about an example and its answer. Kind is what answers are
// counted under, such as charts/value.
type Turn struct{ Ask, Answer, Kind string }

// WithinTwentieth is appended to the kind of answers that may be off by 5 %.
const WithinTwentieth = " ±5%"

// Measured reports whether the answer is a number read off a scale.
func (t Turn) Measured() bool { return strings.HasSuffix(t.Kind, "/"+scene.AskValue) }

// Near reports whether a number was said that is within a twentieth of the right
// one.
func (t Turn) Near(said string) bool {
	a, err1 := strconv.ParseFloat(strings.TrimSpace(said), 64)
	b, err2 := strconv.ParseFloat(strings.TrimSpace(t.Answer), 64)
	return err1 == nil && err2 == nil && math.Abs(a-b) <= math.Abs(b)/20
}

// Says reports whether what was said is the answer, but for upper case and space
// around it.
func (t Turn) Says(said string) bool {
	return strings.EqualFold(strings.TrimSpace(said), strings.TrimSpace(t.Answer))
}

// Matches reports whether a kind is one of those named, or of a pattern such as
// charts/*.
func Matches(patterns []string, kind string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, kind); return ok })
}

// Example is something seen or heard, and what is true of it.
type Example struct {
	Modality Medium
	Raster   *preprocess.Raster   // of a picture, of a clip the first frame
	Frames   []*preprocess.Raster // of a clip
	Wave     *preprocess.Wave     // of a sound
	Kind     string               // of the example, the first part of its questions' kinds
	Caption  string
	Turns    []Turn

	Scene *scene.Scene // the one of them that it was made of
	Clip  *sound.Clip
}

// Source makes examples: a pure function of i, safe for use by many goroutines
// at once.
type Source interface {
	Make(i int) Example
}

// pictures is the scenes of train/dataset/scene as examples.
type pictures struct{ *scene.Source }

// Pictures opens scenes.
func Pictures(opt scene.Options) (Source, error) {
	src, err := scene.New(opt)
	if err != nil {
		return nil, err
	}
	return pictures{src}, nil
}

// Make implements [Source].
func (p pictures) Make(i int) Example { return Picture(p.Source.Make(i)) }

// Picture is a scene as an example.
func Picture(s scene.Scene) Example {
	raster := func(rgb []byte) *preprocess.Raster { return &preprocess.Raster{W: s.W, H: s.H, C: 3, Pix: rgb} }
	e := Example{Modality: Image, Kind: s.Kind, Caption: s.Caption, Raster: raster(s.RGB), Scene: &s}
	for _, f := range s.Frames {
		e.Frames = append(e.Frames, raster(f))
	}
	for _, q := range s.Questions {
		e.Turns = append(e.Turns, Turn{q.Ask, q.Answer, s.Kind + "/" + q.Kind})
	}
	return e
}

// sounds is the clips of train/dataset/sound as examples.
type sounds struct{ *sound.Source }

// Sounds opens clips. Where they are speech the source is an io.Closer to be
// closed.
func Sounds(opt sound.Options) (Source, error) {
	src, err := sound.New(opt)
	if err != nil {
		return nil, err
	}
	return sounds{src}, nil
}

// Make implements [Source].
func (p sounds) Make(i int) Example {
	c := p.Source.Make(i)
	e := Example{Modality: Audio, Kind: c.Kind, Caption: c.Caption, Wave: &preprocess.Wave{Rate: sound.Rate, Samples: c.PCM}, Clip: &c}
	for _, q := range c.Questions {
		e.Turns = append(e.Turns, Turn{q.Ask, q.Answer, c.Kind + "/" + q.Kind})
	}
	return e
}
