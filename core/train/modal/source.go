package modal

import (
	"fmt"

	"mm-abi.org/mm/core/dataset/scene"
	"mm-abi.org/mm/core/dataset/sound"
	"mm-abi.org/mm/core/preprocess"
)

// Medium is what comes in, named as the core's markers around it are.
type Medium string

// The media.
const (
	Image Medium = "image"
	Audio Medium = "audio"
)

// Turn is a question about an example and its answer. Kind is what answers are
// counted under, such as charts/value.
type Turn struct{ Ask, Answer, Kind string }

// Example is something seen or heard, and what is true of it.
type Example struct {
	Modality Medium
	Raster   *preprocess.Raster // of a picture
	Wave     *preprocess.Wave   // of a sound
	Kind     string             // of the example, the first part of its questions' kinds
	Caption  string
	Turns    []Turn

	scene *scene.Scene // the one of them that it was made of
	clip  *sound.Clip
}

// Source makes examples: a pure function of i, safe for use by many goroutines
// at once.
type Source interface {
	Make(i int) Example
}

// pictures is the scenes of core/dataset/scene as examples.
type pictures struct{ *scene.Source }

// newPictures opens the scenes of one split.
func newPictures(s Scene, split string) (Source, error) {
	src, err := scene.New(scene.Options{Split: split, Seed: s.Seed, Kinds: s.Kinds, Size: s.Pixels, Plain: s.Plain})
	if err != nil {
		return nil, at("/data/scene", err)
	}
	return pictures{src}, nil
}

// Make implements [Source].
func (p pictures) Make(i int) Example {
	s := p.Source.Make(i)
	e := Example{Modality: Image, Kind: s.Kind, Caption: s.Caption, Raster: &preprocess.Raster{W: s.W, H: s.H, C: 3, Pix: s.RGB}, scene: &s}
	for _, q := range s.Questions {
		e.Turns = append(e.Turns, Turn{q.Ask, q.Answer, s.Kind + "/" + q.Kind})
	}
	return e
}

// sounds is the clips of core/dataset/sound as examples.
type sounds struct{ *sound.Source }

// newSounds opens the clips of one split.
func newSounds(s Sound, split, dir string) (Source, error) {
	opt := sound.Options{Split: split, Seed: s.Seed, Kinds: s.Kinds, Speakers: s.Speakers}
	if split == heldSplit && s.Held != nil {
		opt.Speakers = s.Held
	}
	for _, folder := range []struct {
		to   *string
		path string
	}{{&opt.Dir, s.Speech}, {&opt.FSDD, s.FSDD}} {
		if folder.path != "" {
			*folder.to = resolve(dir, folder.path)
		}
	}
	src, err := sound.New(opt)
	if err != nil {
		return nil, at("/data/sound", err)
	}
	return sounds{src}, nil
}

// Make implements [Source].
func (p sounds) Make(i int) Example {
	c := p.Source.Make(i)
	e := Example{Modality: Audio, Kind: c.Kind, Caption: c.Caption, Wave: &preprocess.Wave{Rate: sound.Rate, Samples: c.PCM}, clip: &c}
	for _, q := range c.Questions {
		e.Turns = append(e.Turns, Turn{q.Ask, q.Answer, c.Kind + "/" + q.Kind})
	}
	return e
}

// prepare makes what an encoder takes of an example: float32 or the bytes of
// another element type.
func prepare(spec *preprocess.Spec, e Example) (*preprocess.Tensor, error) {
	if e.Raster != nil {
		return spec.FromRaster(e.Raster)
	}
	if e.Wave == nil {
		return nil, fmt.Errorf("an example of %s with neither picture nor sound", e.Modality)
	}
	samples, err := spec.Samples(e.Wave)
	if err != nil {
		return nil, err
	}
	windows := spec.Windows(samples, nil)
	return spec.FromSamples(windows[0])
}
