package modal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/qa"
	"mm-abi.org/mm/train/dataset/scene"
	"mm-abi.org/mm/train/dataset/sound"
)

// What is learnt from and asked about.
type (
	Medium  = qa.Medium  // what comes in
	Turn    = qa.Turn    // a question and its answer
	Example = qa.Example // something seen or heard, and what is true of it
	Source  = qa.Source  // makes examples
)

// The media.
const (
	Image = qa.Image
	Audio = qa.Audio
)

// newPictures opens the scenes of one split.
func newPictures(s Scene, split string) (Source, error) {
	src, err := qa.Pictures(scene.Options{Split: split, Seed: s.Seed, Kinds: s.Kinds, Size: s.Pixels, Plain: s.Plain, Small: s.Small})
	if err != nil {
		return nil, train.At("/data/scene", err)
	}
	return src, nil
}

// Films reports whether films are among the scenes.
func (d Data) Films() bool {
	if d.Scene == nil {
		return false
	}
	return len(d.Scene.Kinds) == 0 || slices.ContainsFunc(d.Scene.Kinds, func(k string) bool {
		kind, _, _ := strings.Cut(k, ":")
		return kind == scene.Video
	})
}

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
			*folder.to = train.Resolve(dir, folder.path)
		}
	}
	src, err := qa.Sounds(opt)
	if err != nil {
		return nil, train.At("/data/sound", err)
	}
	return src, nil
}

// prepare makes what an encoder takes of an example: float32 or the bytes of
// another element type.
func prepare(spec *preprocess.Spec, e Example) (*preprocess.Tensor, error) {
	if e.Raster != nil {
		return spec.FromRaster(context.Background(), e.Raster)
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
