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

// DrawOptions say what Draw asks for. The zero value is not ready: N is wanted.
type DrawOptions struct {
	N      int
	Seed   uint64   // another seed, other prompts
	Kinds  []string // of scenes that words can ask for; none: shapes
	Ask    []string // kinds of questions that the build's encoder is asked, as patterns; none: all
	Ablate bool     // judge the picture of another prompt, and mm's own, as well
	Dir    string   // folder that is left the pictures, in the order of the prompts; "": none is

	Progress func(done, total int) // may be nil
}

// Judge is who looks at what was drawn.
type Judge string

// The judges.
const (
	Pixels Judge = "pixels" // scene.Measure and scene.MeasureBars
	Eye    Judge = "eye"    // the build, asked about the picture
)

// Canvas is what a judge is shown.
type Canvas string

// What may be shown.
const (
	Drawn   Canvas = ""        // what the build drew for the prompt
	Another Canvas = "another" // what it drew for another prompt
	Given   Canvas = "given"   // the picture that the prompt was made of
)

// Name is the canvas in words.
func (c Canvas) Name() string {
	switch c {
	case Drawn:
		return "as drawn"
	case Given:
		return "by mm itself"
	}
	return string(c)
}

// Judged is how often pictures were what was asked for.
type Judged struct {
	Judge  Judge         `json:"judge"`
	Canvas Canvas        `json:"picture,omitempty"`
	Scores []train.Score `json:"scores"`
}

// Draw asks for pictures in words and judges them: by their pixels, and by what
// the build itself answers about them where it has an encoder for pictures. The
// prompts are those of held-out plain scenes.
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
			return nil, fmt.Errorf("no words ask for a picture of kind %s", s.Kind)
		}
		png, err := draw(ctx, a, s.Draw, uint64(i))
		if err == nil && opt.Dir != "" {
			err = fsx.WriteFile(filepath.Join(opt.Dir, fmt.Sprintf("%04d.png", i)), png, 0o644)
		}
		if err == nil {
			err = j.judge(ctx, Drawn, s, png)
		}
		if err == nil && opt.Ablate {
			err = j.given(ctx, s)
		}
		if err == nil && opt.Ablate && i > 0 {
			err = j.judge(ctx, Another, s, last)
		}
		if err != nil {
			return nil, fmt.Errorf("picture %d: %w", i, err)
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
			return nil, fmt.Errorf("picture %d: %w", opt.N-1, err)
		}
	}
	return j.verdict(), nil
}

// draw has the build draw, and gives the file.
func draw(ctx context.Context, a Answerer, prompt string, seed uint64) ([]byte, error) {
	req := runner.Request{Inputs: []talk.Part{{Type: abi.Text, Text: prompt}}, Outputs: []string{string(abi.Image)}}
	req.Preferences.Seed = seed
	got, err := a.Answer(ctx, req, nil)
	if err != nil {
		return nil, fmt.Errorf("asking for %q: %w", prompt, err)
	}
	if len(got.Made) != 1 {
		return nil, fmt.Errorf("asking for %q: %d pictures came of it", prompt, len(got.Made))
	}
	return got.Made[0].Data, nil
}
