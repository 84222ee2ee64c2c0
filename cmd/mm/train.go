package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/urfave/cli/v2"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train"
)

func (p *program) trainCommand() *cli.Command {
	return &cli.Command{
		Name: "train", Usage: "train a small language model", ArgsUsage: "CONFIG.yaml",
		Description: "Writes DIR/last.safetensors and DIR/best.safetensors, and DIR/metrics.jsonl with one event a\n" +
			"line. The same configuration and data give the same curve, bit for bit, on any number of\n" +
			"threads and through any number of interruptions; --resume goes on from last.safetensors.",
		Flags: []cli.Flag{
			p.jsonFlag(),
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "folder `DIR` of checkpoints and metrics (default: runs/NAME beside the configuration)"},
			&cli.BoolFlag{Name: "resume", Usage: "go on from the last checkpoint"},
			&cli.IntFlag{Name: "threads", Usage: "threads (default: the configuration's, or what the machine has)"},
			&cli.IntFlag{Name: "steps", Usage: "stop at this step instead"},
			&cli.DurationFlag{Name: "time", Usage: "stop after this time of training instead"},
			&cli.StringFlag{Name: "plot", Usage: "draw the loss curves into `FILE.svg`"},
			&cli.StringFlag{Name: "sample", Usage: "at the end continue this text"},
		},
		Action: p.train,
	}
}

func (p *program) train(c *cli.Context) error {
	if err := wantArgs(c, 1, 1); err != nil {
		return err
	}
	file := c.Args().First()
	opt := trainingOptions{
		file: file, dir: c.String("out"), plot: c.String("plot"), sample: c.String("sample"), resume: c.Bool("resume"), threads: c.Int("threads"),
		steps: c.Int("steps"), time: c.Duration("time"),
	}
	if opt.plot != "" && filepath.Ext(opt.plot) != ".svg" {
		return usageError{fmt.Errorf("--plot draws .svg, not %q", filepath.Ext(opt.plot))}
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

// trainingOptions are what surrounds a run.
type trainingOptions struct {
	file, dir, plot, sample string
	resume                  bool
	threads, steps          int
	time                    time.Duration
}

// stop is the end of a run as the flags say it, or as its configuration does.
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

// readTraining reads what is to be trained strictly: an unknown key is a fault.
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
	if k, _ := doc.Detect(); k == schemas.Stage || k == schemas.Decoding {
		kind = k
	}
	list = append(list, doc.Validate(kind)...)
	list.Sort()
	return doc, list.Err()
}

// loadTraining is the configuration of a language model.
func loadTraining(doc *schemas.Document) (train.Config, error) {
	var cfg train.Config
	if err := doc.Decode(&cfg); err != nil {
		return cfg, err
	}
	return cfg, placed(doc, cfg.Validate())
}

// placed is err with the places in the configuration of what is wrong with it,
// where that is what err says.
func placed(doc *schemas.Document, err error) error {
	var list diag.List
	for _, f := range train.Faults(err) {
		list.Add(diag.NotAllowed, doc.Pos(f.Path), f.Error(), "")
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
	corpus, err := train.Prepare(cfg, from)
	if err != nil {
		return err
	}
	defer corpus.Close()
	view := p.newTrainingView(cfg.Stop)
	t, err := train.RunFolder(ctx, cfg, corpus, opt.resume, train.Options{Dir: opt.dir, From: from, Observer: view, Threads: opt.threads, CPU: processTime})
	view.close()
	if errors.Is(err, train.ErrHeld) {
		return hinted{err, "--resume goes on with it; --out chooses another folder"}
	}
	if err != nil {
		return err
	}
	defer t.Close()
	if opt.plot != "" {
		if err := plotRun(filepath.Join(opt.dir, train.MetricsFile), opt.plot, corpus, cfg.Model.Vocab); err != nil {
			return err
		}
		p.say("drew %s", opt.plot)
	}
	return p.finishTraining(t, corpus, opt, view)
}

// finishTraining tells how it ended and, if asked, what the model says.
func (p *program) finishTraining(t *train.LMTrainer, corpus *train.Corpus, opt trainingOptions, view *trainingView) error {
	out := map[string]any{"dir": opt.dir, "end": view.end, "eval": view.eval}
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
	_, err := fmt.Fprintln(p.stdout, file)
	return err
}

// trainingView shows a run: a bar on a terminal, and one line a log step.
type trainingView struct {
	p    *program
	stop train.Stop
	bars *mpb.Progress
	bar  *mpb.Bar
	w    io.Writer

	end  train.Finished
	eval train.Evaluated
}

func (p *program) newTrainingView(stop train.Stop) *trainingView {
	v := &trainingView{p: p, stop: stop, w: p.stderr}
	f, ok := p.stderr.(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) || p.json {
		return v
	}
	total := int64(stop.Steps)
	if total == 0 {
		total = int64(stop.Tokens)
	}
	if total == 0 {
		total = int64(stop.Seconds)
	}
	v.bars = mpb.New(mpb.WithOutput(f), mpb.WithWidth(40))
	v.bar = v.bars.AddBar(total, mpb.AppendDecorators(decor.Percentage(), decor.Name("  "), decor.AverageETA(decor.ET_STYLE_GO)))
	v.w = v.bars
	return v
}

// Observe implements train.Observer.
func (v *trainingView) Observe(e train.Event) error {
	switch e := e.(type) {
	case train.Started:
		v.line("%d parameters, %d trainable, %d tensors frozen; %d tokens to train on, %d held out; %d threads", e.Parameters, e.Trainable, e.Frozen, e.TrainTokens, e.HeldTokens, e.Threads)
		if e.Step > 0 {
			v.line("going on from step %d", e.Step)
		}
	case train.Step:
		v.line("step %6d  tokens %9d  mean loss of %2d steps %.4f  lr %.2e  norm %.3f  %6.0f tok/s", e.Step, e.Tokens, e.Steps, e.Loss, e.Rate, e.GradNorm, e.Speed)
		v.advance(e.Step, e.Tokens, e.Seconds)
	case train.Evaluated:
		v.eval = e
		best := ""
		if e.Best {
			best = "  best so far"
		}
		if len(e.Scores) > 0 {
			v.line("held out at step %d: %.4f nats; %s; after %.1f s%s", e.Step, e.Loss, shares(e.Scores), e.Seconds, best)
			return nil
		}
		v.line("held out at step %d: %.4f nats, %.4f bits a byte, after %.1f s%s", e.Step, e.Loss, e.BitsPerByte, e.Seconds, best)
	case train.Finished:
		v.end = e
		v.line("ended by %s: step %d, %d tokens, %.1f s, %.1f CPU seconds", e.Reason, e.Step, e.Tokens, e.Seconds, e.CPU)
		for _, s := range e.Sealed {
			v.seal(s)
		}
	}
	return nil
}

// seal tells that a part did not move.
func (v *trainingView) seal(s train.Seal) {
	trained := ""
	if s.Trained > 0 {
		trained = fmt.Sprintf("; %d others trained", s.Trained)
	}
	if s.Before != s.After {
		v.line("%s: sha256 %s before, %s after: it moved", s.Part, s.Before, s.After)
		return
	}
	v.line("%s: sha256 %s before = after, %d tensors%s", s.Part, s.Before, s.Tensors, trained)
}

func (v *trainingView) line(format string, args ...any) {
	if !v.p.quiet {
		fmt.Fprintf(v.w, format+"\n", args...)
	}
}

func (v *trainingView) advance(steps, tokens int, seconds float64) {
	if v.bar == nil {
		return
	}
	switch {
	case v.stop.Steps > 0:
		v.bar.SetCurrent(int64(steps))
	case v.stop.Tokens > 0:
		v.bar.SetCurrent(int64(tokens))
	default:
		v.bar.SetCurrent(int64(seconds))
	}
}

func (v *trainingView) close() {
	if v.bars != nil {
		v.bar.Abort(false)
		v.bars.Wait()
	}
}
