// Command recite lets a build say sequences of digits that its speech decoder was not
// trained on, in answer to new wordings, and writes each digit as a WAV file, cut from its
// interval and named DIGIT_WHO_TAKE.wav, for scripts/judge-digits.py.
//
//	recite -build BUILD -out DIR [-n 500] [-plain] [-seed 77]
//	recite calibrate [-medium image|audio] [-set train|held|odd] [-n N] [-seed N] [-speech DIR] [-states] BUILD OUT
//
// The second form asks a build about pictures or sounds (odd.go draws unfamiliar ones) and
// records the figures that scripts/calibrate.py fits a confidence to.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/train/dataset/sound"
	"mm-abi.org/mm/workspace"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "calibrate" {
		if err := calibrate(context.Background(), os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "recite:", err)
			os.Exit(1)
		}
		return
	}
	var w reciter
	build := flag.String("build", "", "a build that speaks: what mm run takes")
	target := flag.String("target", "", "of the build")
	flag.StringVar(&w.dir, "out", "", "folder of the WAV files")
	flag.IntVar(&w.n, "n", 500, "minimum number of digits")
	plain := flag.Bool("plain", false, "ask in the plainest wording alone, which it was trained on")
	flag.Uint64Var(&w.says.Seed, "seed", 77, "of the prompts")
	flag.Parse()
	w.says.Split, w.says.Plain = sound.Held, *plain
	if err := w.run(context.Background(), *build, *target); err != nil {
		fmt.Fprintln(os.Stderr, "recite:", err)
		os.Exit(1)
	}
}

// reciter records the speech of a build.
type reciter struct {
	dir  string
	n    int
	says sound.Sayings
}

func (w *reciter) run(ctx context.Context, build, target string) error {
	if w.dir == "" || w.n < 1 {
		return errors.New("missing -out, or -n below 1")
	}
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return err
	}
	space, err := workspace.Open(workspace.Options{})
	if err != nil {
		return err
	}
	defer space.Close()
	b, err := space.Runnable(ctx, build, workspace.RunOptions{Target: target})
	if err != nil {
		return err
	}
	r, err := runner.Open(ctx, b, runner.Options{Engines: []runtimes.Engine{engines.Core{}, engines.ONNX{}}})
	if err != nil {
		return err
	}
	defer r.Close()
	prompts, digits := 0, 0
	for i := 0; digits < w.n; i++ {
		one := w.says.Make(i)
		if one.Kind != sound.SayDigits {
			continue
		}
		if err := w.ask(ctx, r, i, one); err != nil {
			return fmt.Errorf("%q: %w", one.Prompt, err)
		}
		prompts, digits = prompts+1, digits+len(one.Words)
	}
	fmt.Printf("%d prompts, %d digits\n", prompts, digits)
	return nil
}

// ask runs a prompt and writes the speech.
func (w *reciter) ask(ctx context.Context, r *runner.Runner, i int, one sound.Saying) error {
	a, err := r.Answer(ctx, runner.Request{
		Inputs: []talk.Part{{Type: abi.Text, Text: one.Prompt}}, Outputs: []string{string(abi.Audio)},
	}, nil)
	if err != nil {
		return err
	}
	v, err := preprocess.DecodeSound(a.Made[0].Data)
	if err != nil {
		return err
	}
	if v.Rate != sound.Rate || len(v.Samples) < len(one.Words)*sound.StretchSamples {
		return fmt.Errorf("got %d samples at %d Hz", len(v.Samples), v.Rate)
	}
	for k, word := range one.Words {
		digit := slices.Index(sound.SpokenWords(), word) // digits come first
		part := preprocess.Wave{Rate: v.Rate, Samples: v.Samples[k*sound.StretchSamples : (k+1)*sound.StretchSamples]}
		name := fmt.Sprintf("%d_decoder_%d-%d.wav", digit, i, k)
		if err := os.WriteFile(filepath.Join(w.dir, name), preprocess.EncodeWAV(&part), 0o644); err != nil {
			return err
		}
	}
	return nil
}
