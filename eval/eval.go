// Package eval measures an assembled build on held-out examples.
//
// [Sense] asks about held-out images and sounds, [Draw] asks for images. Both use the runner
// and the engines of the build's parts, as a user's request does, so they measure what was
// shipped: quantized weights, preprocessing by the manifest, markers and text. Answers are
// greedy, and the same options select the same examples: the scores of a build are
// reproducible if its engines compute the same.
//
// [ReadBudgets] reads the limits of budgets.yaml on times, memory, size and figures,
// [Budgets.Measure] measures times, and [Budgets.Judge] reports each limit with its figure. A
// limit on a figure that is not measured is missed too.
//
// Packages train/dataset/qa and train, which are also used in training, define the questions,
// the answers and the scoring; scene.Measure judges generated images.
package eval

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/train/dataset/qa"
	"mm-abi.org/mm/train/dataset/scene"
	"mm-abi.org/mm/train/dataset/sound"
)

// Answerer answers questions; [runner.Runner] implements it.
type Answerer interface {
	Build() *builds.Build
	Answer(ctx context.Context, req runner.Request, emit func(text string) error) (*runner.Answer, error)
}

// takes reports whether the core of a build takes a medium.
func takes(b *builds.Build, m qa.Medium) bool {
	return slices.ContainsFunc(b.Assembly.Modalities, func(p builds.ModalityPart) bool { return p.Projects() && string(p.Modality) == string(m) })
}

// sources are the datasets of the questions, used in turn.
type sources struct {
	all   []qa.Source
	asked []string
}

// turn returns the i-th example with its questions.
func (s sources) turn(i int) qa.Example {
	n := len(s.all)
	e := s.all[i%n].Make(i / n)
	if len(s.asked) > 0 {
		e.Turns = slices.DeleteFunc(e.Turns, func(t qa.Turn) bool { return !qa.Matches(s.asked, t.Kind) })
	}
	return e
}

// close closes the datasets.
func (s sources) close() error {
	var errs []error
	for _, src := range s.all {
		if c, ok := src.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// open opens the held-out examples of the requested kinds that the build has encoders for.
func (o Options) open(b *builds.Build) (s sources, err error) {
	s.asked = o.Ask
	pictures, sounds, err := o.kinds(takes(b, qa.Image), takes(b, qa.Audio))
	if err != nil {
		return s, err
	}
	if len(pictures) > 0 {
		src, err := qa.Pictures(scene.Options{Split: scene.Held, Seed: o.Seed, Kinds: pictures})
		if err != nil {
			return s, err
		}
		s.all = append(s.all, src)
	}
	if len(sounds) > 0 {
		src, err := qa.Sounds(sound.Options{Split: sound.Held, Seed: o.Seed, Kinds: sounds, Dir: o.Speech, FSDD: o.FSDD, Speakers: o.Speakers})
		if err != nil {
			return s, errors.Join(err, s.close())
		}
		s.all = append(s.all, src)
	}
	return s, nil
}

// kinds splits the requested kinds into those of images and of sounds. A bare name selects
// both if both have it.
func (o Options) kinds(sees, hears bool) (pictures, sounds []string, err error) {
	able := map[string]bool{sound.Tones: true, sound.Events: true, sound.Digits: o.Speech != "", sound.Words: o.Speech != "", sound.Human: o.FSDD != ""}
	if len(o.Kinds) == 0 {
		if sees {
			pictures = []string{scene.Shapes, scene.Charts, scene.Words, scene.Digits}
		}
		for _, k := range sound.AllKinds() {
			if hears && able[k] {
				sounds = append(sounds, k)
			}
		}
		if len(pictures)+len(sounds) == 0 {
			return nil, nil, errors.New("the build has no encoder for images or sounds")
		}
		return pictures, sounds, nil
	}
	for _, k := range o.Kinds {
		medium, rest, prefixed := strings.Cut(k, "/")
		if !prefixed {
			medium, rest = "", k
		}
		name, _, _ := strings.Cut(rest, ":")
		drawn, heard := slices.Contains(scene.AllKinds(), name), slices.Contains(sound.AllKinds(), name)
		picture := drawn && (medium == "" || medium == string(qa.Image))
		clip := heard && (medium == string(qa.Audio) || medium == "" && (able[name] || !drawn))
		switch {
		case !picture && !clip:
			return nil, nil, fmt.Errorf("unknown kind %q of examples: want one of %s for images, %s for sounds, or audio/%s if both have the name", k,
				strings.Join(scene.AllKinds(), ", "), strings.Join(sound.AllKinds(), ", "), scene.Words)
		case !(picture && sees) && !(clip && hears):
			return nil, nil, fmt.Errorf("kind %q of examples: the build has no encoder for them", k)
		}
		if picture && sees {
			pictures = append(pictures, rest)
		}
		if clip && hears {
			sounds = append(sounds, rest)
		}
	}
	return pictures, sounds, nil
}

// shown returns the part of an example for a request, and a function that removes its files.
func shown(e qa.Example) (p talk.Part, done func() error, err error) {
	done = func() error { return nil }
	switch {
	case e.Frames != nil:
		return video(e.Frames)
	case e.Raster != nil:
		p.Type = abi.Image
		p.Data, err = encode(e.Raster)
	default:
		p.Type, p.Data = abi.Audio, preprocess.EncodeWAV(e.Wave)
	}
	return p, done, err
}

// video writes a clip as a folder of frames.
func video(frames []*preprocess.Raster) (p talk.Part, done func() error, err error) {
	dir, err := fsx.MkdirTemp("mm-clip-*")
	if err != nil {
		return p, nil, err
	}
	done = func() error { return fsx.RemoveAll(dir) }
	for i, f := range frames {
		data, err := encode(f)
		if err == nil {
			err = fsx.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.png", i)), data, 0o600)
		}
		if err != nil {
			return p, nil, errors.Join(err, done())
		}
	}
	return talk.Part{Type: abi.Video, Path: dir}, done, nil
}

// encode encodes a raster of three channels as a PNG.
func encode(r *preprocess.Raster) ([]byte, error) {
	m := image.NewNRGBA(image.Rect(0, 0, r.W, r.H))
	for i := range r.W * r.H {
		copy(m.Pix[4*i:], r.Pix[3*i:3*i+3])
		m.Pix[4*i+3] = 255
	}
	var b bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, m)
	return b.Bytes(), err
}

// ask asks the build a question, about an example or none. The answer ends by itself or is
// truncated after enough tokens for the expected one: one a byte, the space before it, and the
// end.
func ask(ctx context.Context, a Answerer, about []talk.Part, t qa.Turn) (answer string, right bool, err error) {
	req := runner.Request{
		Inputs:      append(slices.Clone(about), talk.Part{Type: abi.Text, Text: t.Ask}),
		Preferences: runner.Preferences{MaxTokens: len(t.Answer) + 2}, Guess: true,
	}
	got, err := a.Answer(ctx, req, nil)
	if err != nil {
		return "", false, fmt.Errorf("asking %q: %w", t.Ask, err)
	}
	return got.Text, got.Stop == runtimes.StopEnd && t.Correct(got.Text), nil
}
