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

// Types of questions and examples.
type (
	Medium  = qa.Medium  // of an input
	Turn    = qa.Turn    // question and answer
	Example = qa.Example // an input and facts about it
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

// Videos reports whether the scenes include videos.
func (d Data) Videos() bool {
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

// prepare returns the encoder's input for an example: float32 or the bytes of
// another element type.
func prepare(spec *preprocess.Spec, e Example) (*preprocess.Tensor, error) {
	if e.Raster != nil {
		return spec.FromRaster(context.Background(), e.Raster)
	}
	if e.Wave == nil {
		return nil, fmt.Errorf("example of %s has no image or sound", e.Modality)
	}
	samples, err := spec.Samples(e.Wave)
	if err != nil {
		return nil, err
	}
	windows := spec.Windows(samples, nil)
	return spec.FromSamples(windows[0])
}
