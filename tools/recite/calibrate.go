package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image"
	"image/png"
	"os"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/train/dataset/qa"
	"mm-abi.org/mm/train/dataset/scene"
	"mm-abi.org/mm/train/dataset/sound"
	"mm-abi.org/mm/workspace"
)

// row is the outcome of a question.
type row struct {
	Kind       string    `json:"kind"`
	Cluster    int       `json:"cluster"` // the example
	Right      bool      `json:"right"`
	Likelihood float64   `json:"likelihood"`
	Confidence *float64  `json:"confidence"`
	Withheld   bool      `json:"withheld"`
	State      []float64 `json:"state,omitempty"`
}

// options select the questions.
type options struct {
	medium, set, speech string
	n                   int
	seed                uint64
	states              bool
}

// calibrate asks a build about generated pictures or sounds, or about odd ones, which are outside
// of the domain of the reference modules. It writes one JSON line a question: whether the answer is
// right, its likelihood and its confidence, which scripts/calibrate.py judges; with -states, the
// core's mean state at each input, for a fit.
func calibrate(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("calibrate", flag.ExitOnError)
	flags.StringVar(&o.medium, "medium", "image", "image or audio")
	flags.StringVar(&o.set, "set", "held", "train, held or odd")
	flags.IntVar(&o.n, "n", 300, "examples; of each kind with -set odd")
	flags.Uint64Var(&o.seed, "seed", 1, "of the examples")
	flags.StringVar(&o.speech, "speech", "", "folder of mm train speech, for digits and words")
	flags.BoolVar(&o.states, "states", false, "write the core's mean states and withhold nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return o.run(ctx, flags.Args())
}

// run writes the rows of all questions.
func (o options) run(ctx context.Context, args []string) (err error) {
	if len(args) != 2 {
		return errors.New("usage: recite calibrate [FLAGS] BUILD OUT")
	}
	space, err := workspace.Open(workspace.Options{})
	if err != nil {
		return err
	}
	b, err := space.Runnable(ctx, args[0], workspace.RunOptions{})
	if err != nil {
		return err
	}
	r, err := runner.Open(ctx, b, runner.Options{Engines: []runtimes.Engine{engines.Core{}, engines.ONNX{}}})
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := os.Create(args[1])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	examples, err := o.examples()
	if err != nil {
		return err
	}
	for i := range o.n * examples.each {
		e := examples.make(i)
		for _, t := range e.Turns {
			x, err := o.ask(ctx, r, e, t)
			if err != nil {
				return fmt.Errorf("example %d, %s: %w", i, t.Kind, err)
			}
			x.Cluster = i
			if err := enc.Encode(x); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// examples is a series of examples.
type examples struct {
	each int // examples in place of one
	make func(i int) qa.Example
}

func (o options) examples() (examples, error) {
	split := scene.Held
	switch o.set {
	case "odd":
		return odd(o.medium, o.seed)
	case "train":
		split = scene.Train
	case "held":
	default:
		return examples{}, fmt.Errorf("set: got %q, want train, held or odd", o.set)
	}
	var src qa.Source
	var err error
	switch o.medium {
	case "image":
		src, err = qa.Pictures(scene.Options{Split: split, Seed: o.seed, Kinds: []string{scene.Shapes, scene.Charts, scene.Words, scene.Digits}})
	case "audio":
		kinds := []string{sound.Tones, sound.Events}
		if o.speech != "" {
			kinds = append(kinds, sound.Digits, sound.Words)
		}
		src, err = qa.Sounds(sound.Options{Split: split, Seed: o.seed, Kinds: kinds, Dir: o.speech})
	default:
		err = fmt.Errorf("medium: got %q, want image or audio", o.medium)
	}
	if err != nil {
		return examples{}, err
	}
	return examples{1, func(i int) qa.Example {
		e := src.Make(i)
		if o.set == "train" && len(e.Turns) > 1 { // more examples in place of more questions
			e.Turns = e.Turns[i%len(e.Turns):][:1]
		}
		return e
	}}, nil
}

// ask asks a question.
func (o options) ask(ctx context.Context, r *runner.Runner, e qa.Example, t qa.Turn) (row, error) {
	p := talk.Part{Type: abi.Audio}
	var err error
	if e.Raster != nil {
		p.Type = abi.Image
		p.Data, err = encode(e.Raster)
	} else {
		p.Data = preprocess.EncodeWAV(e.Wave)
	}
	if err != nil {
		return row{}, err
	}
	x := row{Kind: t.Kind}
	req := runner.Request{Inputs: []talk.Part{p, {Type: abi.Text, Text: t.Ask}}, Preferences: runner.Preferences{MaxTokens: 24}}
	req.Scored = func(s runner.TokenScore) { x.Likelihood += s.LogProb }
	if o.states {
		req.Seen = func(states [][]float64) { x.State = states[0] }
	}
	a, err := r.Answer(ctx, req, nil)
	if err != nil {
		return row{}, err
	}
	text := a.Text
	if x.Confidence, x.Withheld = a.Confidence, a.Withheld != ""; x.Withheld {
		text = a.Withheld
	}
	x.Right = a.Stop == runtimes.StopEnd && t.Correct(text)
	return x, nil
}

// encode encodes a picture as PNG.
func encode(r *preprocess.Raster) ([]byte, error) {
	m := image.NewNRGBA(image.Rect(0, 0, r.W, r.H))
	for i := range r.W * r.H {
		copy(m.Pix[4*i:], r.Pix[3*i:3*i+3])
		m.Pix[4*i+3] = 255
	}
	var b bytes.Buffer
	err := png.Encode(&b, m)
	return b.Bytes(), err
}
