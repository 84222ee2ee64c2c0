package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/track"
	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/decode"
	"mm-abi.org/mm/train/modal"
	"mm-abi.org/mm/train/preference"
)

func (p *program) train(c *cli.Context) error {
	opt := trainingOptions{
		file: c.Args().First(), dir: c.String("out"), plot: c.String("plot"), sample: c.String("sample"), resume: c.Bool("resume"), threads: c.Int("threads"),
		steps: c.Int("steps"), time: c.Duration("time"), checkpoints: c.String("checkpoints"),
	}
	if opt.plot != "" && filepath.Ext(opt.plot) != ".svg" {
		return diag.Usagef("--plot: unsupported extension %q, want .svg", filepath.Ext(opt.plot))
	}
	doc, kind, err := schemas.ReadTraining(opt.file)
	switch {
	case err != nil:
		return err
	case kind == schemas.Train:
		return p.trainLM(c.Context, doc, opt)
	case kind == schemas.Improvement:
		return p.improve(c.Context, doc, opt)
	case opt.sample != "":
		return diag.Usagef("--sample is for language models")
	}
	return placed(doc, p.trainStage(c.Context, doc, kind, opt))
}

// trainingOptions holds the options of a run.
type trainingOptions struct {
	file, dir, plot, sample string
	checkpoints             string // address; "": none
	resume                  bool
	threads, steps          int
	time                    time.Duration
}

// folder returns the folder of a run of a name, which may be empty.
func (o trainingOptions) folder(name string) string {
	name = cmp.Or(name, strings.TrimSuffix(filepath.Base(o.file), filepath.Ext(o.file)))
	return cmp.Or(o.dir, filepath.Join(filepath.Dir(o.file), "runs", name))
}

// trainLM trains a language model from the start.
func (p *program) trainLM(ctx context.Context, doc *schemas.Document, opt trainingOptions) error {
	cfg, err := decodeConfig(doc)
	if err != nil {
		return err
	}
	cfg.Stop = cfg.Stop.Until(opt.steps, opt.time)
	if len(cfg.Data.Files) > 0 {
		p.Note("reading %s", strings.Join(cfg.Data.Files, ", "))
	}
	corpus, err := train.PrepareFrom(ctx, cfg, filepath.Dir(opt.file), objects())
	if err != nil {
		return placed(doc, bucket.Fault(opt.file, err))
	}
	defer corpus.Close()
	dir := opt.folder(cfg.Name)
	t, view, err := follow(ctx, p, opt, dir, cfg.Stop, func(o train.Options) (*train.LMTrainer, error) {
		return train.RunFolder(ctx, cfg, corpus, opt.resume, o)
	})
	if err != nil {
		return placed(doc, err)
	}
	defer t.Close()
	if err := p.plotTraining(dir, opt.plot, corpus, cfg.Model.Vocab); err != nil {
		return err
	}
	out, file := map[string]any{"dir": dir, "end": view.End, "eval": view.Eval}, train.BestFile
	if corpus.Held == nil {
		file = train.LastFile
	}
	if opt.sample != "" && corpus.Tokenizer != nil {
		text, err := train.Sample(t.Model(), corpus.Tokenizer, opt.sample, train.SampleOptions{Temperature: 0.8})
		if err != nil {
			return err
		}
		out["sample"] = opt.sample + text
		if !p.JSON {
			fmt.Fprintf(p.Stdout, "%s%s\n", opt.sample, text)
		}
	}
	return p.PrintLine(out, "%s", filepath.Join(dir, file))
}

// follow runs a training, which it shows and copies.
func follow[T io.Closer](ctx context.Context, p *program, opt trainingOptions, dir string, stop train.Stop, run func(train.Options) (T, error)) (t T, view *console.Training, err error) {
	view = console.NewTraining(console.ScreenOf(p.Stderr, p.JSON), p.Stderr, p.Quiet, stop)
	o := train.Options{Dir: dir, From: filepath.Dir(opt.file), Observer: view, Threads: opt.threads, CPU: train.ProcessTime}
	if opt.checkpoints != "" {
		m := track.MirrorOptions{Dir: dir, Resume: opt.resume, Say: func(text string) { p.Note("%s", text) }}
		if m.Files, err = bucketFiles(opt.checkpoints); err != nil {
			return t, view, err
		}
		copier, finish, err := track.Mirror(ctx, m)
		if err != nil {
			return t, view, err
		}
		defer finish()
		o.Observer = train.Observers{view, copier}
	}
	t, err = run(o)
	view.Close()
	if errors.Is(err, train.ErrHeld) {
		err = diag.Hinted(err, "--resume continues it; --out selects another folder")
	}
	return t, view, err
}

// plotTraining draws the metrics of a run, if a file is named.
func (p *program) plotTraining(dir, file string, corpus *train.Corpus, vocab int) error {
	if file == "" {
		return nil
	}
	err := train.Plot(filepath.Join(dir, train.MetricsFile), file, corpus, vocab)
	if err == nil {
		p.Note("drew %s", file)
	}
	return err
}

// trainStage trains parts of a model, a decoder after a frozen core, or a core on pairs of
// answers.
func (p *program) trainStage(ctx context.Context, doc *schemas.Document, kind schemas.Kind, opt trainingOptions) error {
	switch kind {
	case schemas.Stage:
		var r modal.Recipe
		err := decodeRecipe(doc, &r)
		r.Stop = r.Stop.Until(opt.steps, opt.time)
		return p.runStage(ctx, opt, err, r.Name, fmt.Sprintf("stage %s: %s frozen", r.Stage, r.Stage.Frozen()), r.Stop, func(o train.Options) (io.Closer, error) {
			return modal.RunFolder(ctx, r, opt.resume, o)
		})
	case schemas.Decoding:
		var r decode.Recipe
		err := decodeRecipe(doc, &r)
		r.Stop = r.Stop.Until(opt.steps, opt.time)
		return p.runStage(ctx, opt, err, r.Name, fmt.Sprintf("stage %s: the core frozen", r.Stage), r.Stop, func(o train.Options) (io.Closer, error) {
			return decode.RunFolder(ctx, r, opt.resume, o)
		})
	}
	var r preference.Recipe
	err := decodeRecipe(doc, &r)
	r.Stop = r.Stop.Until(opt.steps, opt.time)
	return p.runStage(ctx, opt, err, r.Name, "", r.Stop, func(o train.Options) (io.Closer, error) {
		return preference.RunFolder(ctx, r, opt.resume, o)
	})
}

// runStage runs a stage, unless its recipe has a fault, and prints its result.
func (p *program) runStage(ctx context.Context, opt trainingOptions, fault error, name, note string, stop train.Stop, run func(train.Options) (io.Closer, error)) error {
	if fault != nil {
		return fault
	}
	if note != "" {
		p.Note("%s", note)
	}
	dir := opt.folder(name)
	t, view, err := follow(ctx, p, opt, dir, stop, run)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := p.plotTraining(dir, opt.plot, nil, 0); err != nil {
		return err
	}
	return p.PrintLine(map[string]any{"dir": dir, "end": view.End, "eval": view.Eval}, "%s", filepath.Join(dir, train.BestFile))
}
