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
	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/decode"
	"mm-abi.org/mm/train/modal"
	"mm-abi.org/mm/train/preference"
)

func (p *program) train(c *cli.Context) error {
	file := c.Args().First()
	opt := trainingOptions{
		file: file, dir: c.String("out"), plot: c.String("plot"), sample: c.String("sample"), resume: c.Bool("resume"), threads: c.Int("threads"),
		steps: c.Int("steps"), time: c.Duration("time"), checkpoints: c.String("checkpoints"),
	}
	if opt.plot != "" && filepath.Ext(opt.plot) != ".svg" {
		return diag.Usagef("--plot: unsupported extension %q, want .svg", filepath.Ext(opt.plot))
	}
	doc, err := readTraining(file)
	if err != nil {
		return err
	}
	switch kind, _ := doc.Detect(); kind {
	case schemas.Stage:
		return p.trainStage(c.Context, doc, opt)
	case schemas.Decoding:
		return p.trainDecoder(c.Context, doc, opt)
	case schemas.Preference:
		return p.trainPreference(c.Context, doc, opt)
	case schemas.Improvement:
		return p.improve(c.Context, doc, opt)
	}
	cfg, err := loadTraining(doc)
	if err != nil {
		return err
	}
	if opt.dir == "" {
		opt.dir = filepath.Join(filepath.Dir(file), "runs", runName(cfg.Name, file))
	}
	cfg.Stop = opt.stop(cfg.Stop)
	return placed(doc, p.runTraining(c.Context, cfg, opt))
}

// trainingOptions holds the options of a run.
type trainingOptions struct {
	file, dir, plot, sample string
	checkpoints             string // address; "": none
	resume                  bool
	threads, steps          int
	time                    time.Duration
}

// stop returns when to stop, according to the flags or the configuration.
func (o trainingOptions) stop(stop train.Stop) train.Stop {
	if o.steps > 0 {
		stop.Steps, stop.Tokens, stop.Seconds = o.steps, 0, 0
	}
	if o.time > 0 {
		stop.Steps, stop.Tokens, stop.Seconds = o.steps, 0, o.time.Seconds()
	}
	return stop
}

func runName(name, file string) string {
	if name != "" {
		return name
	}
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
}

// readTraining reads a training document; unknown keys are faults.
func readTraining(file string) (*schemas.Document, error) {
	data, list := schemas.ReadFile(file, diag.Unreadable)
	if err := list.Err(); err != nil {
		return nil, err
	}
	doc, list := schemas.Parse(file, data)
	if doc == nil {
		return nil, list.Err()
	}
	kind := schemas.Train
	if k, _ := doc.Detect(); k == schemas.Stage || k == schemas.Decoding || k == schemas.Preference || k == schemas.Improvement {
		kind = k
	}
	list = append(list, doc.Validate(kind)...)
	list.Sort()
	return doc, list.Err()
}

// loadTraining decodes the configuration of a language model.
func loadTraining(doc *schemas.Document) (train.Config, error) {
	var cfg train.Config
	if err := doc.Decode(&cfg); err != nil {
		return cfg, err
	}
	return cfg, placed(doc, cfg.Validate())
}

// placed adds positions in the document to the faults in err.
func placed(doc *schemas.Document, err error) error { return placedAs(diag.NotAllowed, doc, err) }

// placedAs is placed with another code.
func placedAs(code diag.Code, doc *schemas.Document, err error) error {
	var list diag.List
	for _, f := range train.Faults(err) {
		list.Add(code, doc.Pos(f.Path), f.Error(), "")
	}
	if len(list) > 0 {
		return list.Err()
	}
	return err
}

func (p *program) runTraining(ctx context.Context, cfg train.Config, opt trainingOptions) error {
	if len(cfg.Data.Files) > 0 {
		p.say("reading %s", strings.Join(cfg.Data.Files, ", "))
	}
	from := filepath.Dir(opt.file)
	corpus, err := train.PrepareFrom(ctx, cfg, from, objects())
	if err != nil {
		return bucket.Fault(opt.file, err)
	}
	defer corpus.Close()
	view := p.trainingView(cfg.Stop)
	observer, finish, err := p.mirrored(ctx, opt.checkpoints, opt.dir, opt.resume, view)
	if err != nil {
		return err
	}
	t, err := train.RunFolder(ctx, cfg, corpus, opt.resume, train.Options{Dir: opt.dir, From: from, Observer: observer, Threads: opt.threads, CPU: processTime})
	view.Close()
	finish()
	if errors.Is(err, train.ErrHeld) {
		return diag.Hinted(err, "--resume continues it; --out selects another folder")
	}
	if err != nil {
		return err
	}
	defer t.Close()
	if opt.plot != "" {
		if err := train.Plot(filepath.Join(opt.dir, train.MetricsFile), opt.plot, corpus, cfg.Model.Vocab); err != nil {
			return err
		}
		p.say("drew %s", opt.plot)
	}
	return p.finishTraining(t, corpus, opt, view)
}

// finishTraining prints the result and, with --sample, a continuation.
func (p *program) finishTraining(t *train.LMTrainer, corpus *train.Corpus, opt trainingOptions, view *console.Training) error {
	out := map[string]any{"dir": opt.dir, "end": view.End, "eval": view.Eval}
	if opt.sample != "" && corpus.Tokenizer != nil {
		text, err := train.Sample(t.Model(), corpus.Tokenizer, opt.sample, train.SampleOptions{Temperature: 0.8})
		if err != nil {
			return err
		}
		out["sample"] = opt.sample + text
		if !p.json {
			fmt.Fprintf(p.stdout, "%s%s\n", opt.sample, text)
		}
	}
	if p.json {
		return p.printJSON(out)
	}
	file := filepath.Join(opt.dir, train.BestFile)
	if corpus.Held == nil {
		file = filepath.Join(opt.dir, train.LastFile)
	}
	return p.line("%s", file)
}

func (p *program) trainingView(stop train.Stop) *console.Training {
	return console.NewTraining(console.ScreenOf(p.stderr, p.json), p.stderr, p.quiet, stop)
}

// trainStage trains encoders, projectors or adapters.
func (p *program) trainStage(ctx context.Context, doc *schemas.Document, opt trainingOptions) error {
	var r modal.Recipe
	if err := doc.Decode(&r); err != nil {
		return err
	}
	if err := placed(doc, r.Validate()); err != nil {
		return err
	}
	r.Stop = opt.stop(r.Stop)
	p.say("stage %s: %s frozen", r.Stage, r.Stage.Frozen())
	return p.runStage(ctx, doc, opt, r.Name, r.Stop, func(o train.Options) (io.Closer, error) { return modal.RunFolder(ctx, r, opt.resume, o) })
}

// trainDecoder trains a decoder after a frozen core: stage 2.
func (p *program) trainDecoder(ctx context.Context, doc *schemas.Document, opt trainingOptions) error {
	var r decode.Recipe
	if err := doc.Decode(&r); err != nil {
		return err
	}
	if err := placed(doc, r.Validate()); err != nil {
		return err
	}
	r.Stop = opt.stop(r.Stop)
	p.say("stage %s: the core frozen", r.Stage)
	return p.runStage(ctx, doc, opt, r.Name, r.Stop, func(o train.Options) (io.Closer, error) { return decode.RunFolder(ctx, r, opt.resume, o) })
}

// trainPreference trains a core on pairs of answers.
func (p *program) trainPreference(ctx context.Context, doc *schemas.Document, opt trainingOptions) error {
	var r preference.Recipe
	if err := doc.Decode(&r); err != nil {
		return err
	}
	if err := placed(doc, r.Validate()); err != nil {
		return err
	}
	r.Stop = opt.stop(r.Stop)
	return p.runStage(ctx, doc, opt, r.Name, r.Stop, func(o train.Options) (io.Closer, error) { return preference.RunFolder(ctx, r, opt.resume, o) })
}

// runStage runs a stage and prints its result.
func (p *program) runStage(ctx context.Context, doc *schemas.Document, opt trainingOptions, name string, stop train.Stop, run func(train.Options) (io.Closer, error)) error {
	if opt.sample != "" {
		return diag.Usagef("--sample is for language models")
	}
	dir := cmp.Or(opt.dir, filepath.Join(filepath.Dir(opt.file), "runs", runName(name, opt.file)))
	view := p.trainingView(stop)
	observer, finish, err := p.mirrored(ctx, opt.checkpoints, dir, opt.resume, view)
	if err != nil {
		return err
	}
	t, err := run(train.Options{Dir: dir, From: filepath.Dir(opt.file), Observer: observer, Threads: opt.threads, CPU: processTime})
	view.Close()
	finish()
	if errors.Is(err, train.ErrHeld) {
		return diag.Hinted(err, "--resume continues it; --out selects another folder")
	}
	if err != nil {
		return placed(doc, err)
	}
	defer t.Close()
	if opt.plot != "" {
		if err := train.Plot(filepath.Join(dir, train.MetricsFile), opt.plot, nil, 0); err != nil {
			return err
		}
		p.say("plotted %s", opt.plot)
	}
	return p.printLine(map[string]any{"dir": dir, "end": view.End, "eval": view.Eval}, "%s", filepath.Join(dir, train.BestFile))
}
