package eval

import (
	"context"
	"fmt"
	"path/filepath"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset/qa"
	"mm-abi.org/mm/train/dataset/scene"
)

// DrawOptions configures [Draw]. N is required.
type DrawOptions struct {
	N      int
	Seed   uint64   // selects the prompts
	Kinds  []string // of scenes; empty: shapes
	Ask    []string // patterns of the questions for the build's encoder; empty: all
	Ablate bool     // also judge the image of another prompt, and the reference image
	Dir    string   // folder for the images, in the order of the prompts; "": none

	Progress func(done, total int) // may be nil
}

// Judge identifies how an image is judged.
type Judge string

// The judges.
const (
	Pixels Judge = "pixels" // scene.Measure and scene.MeasureBars
	Eye    Judge = "eye"    // the build's answers about the image
)

// Canvas identifies which image is judged.
type Canvas string

// The images to judge.
const (
	Drawn   Canvas = ""        // the image generated for the prompt
	Another Canvas = "another" // the image generated for another prompt
	Given   Canvas = "given"   // the reference image of the prompt
)

// Name describes the canvas.
func (c Canvas) Name() string {
	switch c {
	case Drawn:
		return "as drawn"
	case Given:
		return "by mm itself"
	}
	return string(c)
}

// Judged is the score of the images by one judge.
type Judged struct {
	Judge  Judge         `json:"judge"`
	Canvas Canvas        `json:"picture,omitempty"`
	Scores []train.Score `json:"scores"`
}

// Draw generates images from the prompts of held-out plain scenes and judges them: by their
// pixels, and by the build's own answers about them if it has an encoder for images.
func Draw(ctx context.Context, a Answerer, opt DrawOptions) ([]Judged, error) {
	if len(opt.Kinds) == 0 {
		opt.Kinds = []string{scene.Shapes}
	}
	src, err := scene.New(scene.Options{Split: scene.Held, Seed: opt.Seed, Kinds: opt.Kinds, Plain: true})
	if err != nil {
		return nil, err
	}
	j := &jury{Answerer: a, asked: opt.Ask, sees: takes(a.Build(), qa.Image), counts: map[sitting]train.Tally{}}
	var first scene.Scene
	var last []byte
	for i := range opt.N {
		s := src.Make(i)
		if s.Draw == "" {
			return nil, fmt.Errorf("no prompt for images of kind %s", s.Kind)
		}
		png, err := draw(ctx, a, s.Draw, uint64(i))
		if err == nil && opt.Dir != "" {
			err = fsx.WriteFile(filepath.Join(opt.Dir, fmt.Sprintf("%04d.png", i)), png, 0o644)
		}
		if err == nil {
			err = j.judge(ctx, Drawn, s, png)
		}
		if err == nil && opt.Ablate {
			err = j.reference(ctx, s)
		}
		if err == nil && opt.Ablate && i > 0 {
			err = j.judge(ctx, Another, s, last)
		}
		if err != nil {
			return nil, fmt.Errorf("image %d: %w", i, err)
		}
		if last = png; i == 0 {
			first = s
		}
		if opt.Progress != nil {
			opt.Progress(i+1, opt.N)
		}
	}
	if opt.Ablate && opt.N > 1 {
		if err := j.judge(ctx, Another, first, last); err != nil {
			return nil, fmt.Errorf("image %d: %w", opt.N-1, err)
		}
	}
	return j.verdict(), nil
}

// draw generates one image.
func draw(ctx context.Context, a Answerer, prompt string, seed uint64) ([]byte, error) {
	req := runner.Request{Inputs: []talk.Part{{Type: abi.Text, Text: prompt}}, Outputs: []string{string(abi.Image)}}
	req.Preferences.Seed = seed
	got, err := a.Answer(ctx, req, nil)
	if err != nil {
		return nil, fmt.Errorf("generating %q: %w", prompt, err)
	}
	if len(got.Made) != 1 {
		return nil, fmt.Errorf("generating %q: got %d images, want 1", prompt, len(got.Made))
	}
	return got.Made[0].Data, nil
}
