// Package qa makes questions about images and sounds: the scenes of
// train/dataset/scene and the clips of train/dataset/sound as examples of one
// type, and the comparison of answers. Training (train/modal) and the
// evaluation of a build (eval) share it, so that both ask the same.
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

// Medium is the type of an input, named like the core's markers around it.
type Medium string

// The media.
const (
	Image Medium = "image"
	Audio Medium = "audio"
)

// Look selects the input shown with a question.
type Look string

// The looks.
const (
	Actual  Look = ""        // the input of the question
	Another Look = "another" // the input of another example
	Nothing Look = "nothing" // none
)

// Name returns the look in words.
func (l Look) Name() string {
	if l == Actual {
		return "its own"
	}
	return string(l)
}

// Away returns the distance to the example whose input replaces the right one:
// beyond all n evaluated examples, and of the same source if sources take
// turns.
func Away(n, sources int) int { return (n + sources - 1) / sources * sources }

// Turn is a question about an example and its answer. Kind is the key for
// counting answers, such as charts/value.
type Turn struct{ Ask, Answer, Kind string }

// WithinTwentieth is appended to the kind of answers that may be off by 5 %.
const WithinTwentieth = " ±5%"

// Measured reports whether the answer is a number read off a scale.
func (t Turn) Measured() bool { return strings.HasSuffix(t.Kind, "/"+scene.AskValue) }

// Near reports whether answer is a number within a twentieth of the right one.
func (t Turn) Near(answer string) bool {
	a, err1 := strconv.ParseFloat(strings.TrimSpace(answer), 64)
	b, err2 := strconv.ParseFloat(strings.TrimSpace(t.Answer), 64)
	return err1 == nil && err2 == nil && math.Abs(a-b) <= math.Abs(b)/20
}

// Correct reports whether answer equals the right one, ignoring case and
// surrounding space.
func (t Turn) Correct(answer string) bool {
	return strings.EqualFold(strings.TrimSpace(answer), strings.TrimSpace(t.Answer))
}

// Matches reports whether a kind matches one of the patterns, such as charts/*.
func Matches(patterns []string, kind string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, kind); return ok })
}

// Example is an input and facts about it.
type Example struct {
	Modality Medium
	Raster   *preprocess.Raster   // of an image, or the first frame of a video
	Frames   []*preprocess.Raster // of a video
	Wave     *preprocess.Wave     // of a sound
	Kind     string               // of the example, the prefix of its questions' kinds
	Caption  string
	Turns    []Turn

	Scene *scene.Scene // the source of the example: one of the two
	Clip  *sound.Clip
}

// Source makes examples. Make is a pure function of i and safe for concurrent
// use.
type Source interface {
	Make(i int) Example
}

// pictures adapts the scenes of train/dataset/scene.
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

// Picture converts a scene to an example.
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

// sounds adapts the clips of train/dataset/sound.
type sounds struct{ *sound.Source }

// Sounds opens clips. With speech, the source is an io.Closer that the caller
// closes.
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
