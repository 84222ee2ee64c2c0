// Package train runs the training of a small language model: the loop, what is
// frozen, evaluation, checkpoints and the files that leave it.
//
// The way of a run: [Config] says everything; [Prepare] reads the data and the
// tokenizer; [New], or [Resume] from a checkpoint, builds a [Trainer]; Run walks
// steps until the first of the configured stops. One step reads Accumulate
// batches, runs the model forward and backward over each, measures the
// gradient, and moves the weights:
//
//	batches → loss and gradients → norm, clip → optimizer → frozen hashes
//
// A run is a function of its configuration and data: the same loss curve, bit
// for bit, on any number of threads and through any number of interruptions.
package train

import (
	"context"
	"fmt"
	"time"

	"mm-abi.org/mm/core/dataset"
	"mm-abi.org/mm/core/llm"
	"mm-abi.org/mm/core/optim"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tokenizer"
)

// Corpus is what a run reads: tokens to train on and tokens kept apart.
type Corpus struct {
	Train, Held *dataset.Tokens
	Tokenizer   *tokenizer.Tokenizer // of both; nil leaves bits per byte out
	// Text and Vocabulary are the digests of the documents and the tokenizer. A
	// run is resumed only on the same ones.
	Text, Vocabulary string

	special bool // control tokens in the documents counted as such
}

// Close unmaps the tokens.
func (c *Corpus) Close() error {
	err := c.Train.Close()
	if c.Held != nil {
		if e := c.Held.Close(); err == nil {
			err = e
		}
	}
	return err
}

// Options is what surrounds a run and changes nothing in it.
type Options struct {
	Dir      string               // folder of checkpoints; "" keeps none
	From     string               // folder that Config.Base is relative to
	Observer Observer             // nil tells nobody
	Threads  int                  // overrides Config.Threads when above 0
	CPU      func() time.Duration // processor time of this process; nil reports none
	Stop     *Stop                // in Resume: replaces the stops of the checkpoint
}

// Trainer is a run in progress. It belongs to one goroutine.
type Trainer struct {
	cfg    Config
	opt    Options
	corpus *Corpus
	pieces []int // bytes that each token stands for

	pool    *pool.Pool
	model   *llm.Model[float32]
	pass    *llm.Pass[float32]
	mover   mover
	gauge   *optim.Gauge
	seal    *seal
	loader  *dataset.Loader
	batches []*dataset.Batch // of one step
	held    *dataset.Batch

	step, tokens int
	best         float64 // lowest held-out loss; 0 before the first
	watch        *stopwatch
	since        report
}

// mover is an optimizer: those of core/optim.
type mover interface {
	Step(rate, scale float64)
	State() optim.State
	Restore(optim.State) error
}

// averager is an optimizer that trains at one point and is evaluated at
// another.
type averager interface {
	Average()
	Continue()
}

// report adds up the steps since the last report.
type report struct {
	Unreported
	rate, norm float64 // of the last of them
}

// New builds a run from the start.
func New(cfg Config, corpus *Corpus, opt Options) (*Trainer, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("training configuration: %w", err)
	}
	m, err := startModel(cfg, opt.From, corpus)
	if err != nil {
		return nil, err
	}
	return build(cfg, m, corpus, opt, dataset.Position{Seed: cfg.Seed})
}

// Close stops the run's threads. The corpus stays open.
func (t *Trainer) Close() { t.pool.Close() }

// Model is the model in training: the averaged one where the optimizer keeps
// an average, once Run has returned.
func (t *Trainer) Model() *llm.Model[float32] { return t.model }

// Run trains until the first of the configured stops, or until ctx ends, which
// saves a checkpoint to resume from and returns ctx's error.
func (t *Trainer) Run(ctx context.Context) error {
	if t.watch == nil {
		t.watch = startWatch(0, 0, t.opt.CPU)
	}
	if err := t.tell(t.started()); err != nil {
		return err
	}
	t.model.Refresh(t.pool)
	reason := t.stop() // of a run that is resumed at its end
	for reason == "" {
		if ctx.Err() != nil {
			return t.interrupted(ctx)
		}
		if err := t.advance(); err != nil {
			return err
		}
		reached, err := t.afterStep()
		if err != nil {
			return err
		}
		if reason = t.stop(); reached {
			reason = "loss"
		}
	}
	return t.finish(reason)
}

// advance is one step.
func (t *Trainer) advance() error {
	begin := time.Now()
	n := 0
	for _, b := range t.batches {
		t.loader.Next(b)
		n += llm.Count(b.Targets)
	}
	scale := 1 / float64(max(n, 1))
	var sum float64
	for i, b := range t.batches {
		loss, err := t.pass.Train(llm.Batch[float32]{Tokens: b.Tokens, Targets: b.Targets, Starts: b.Starts}, scale, i > 0)
		if err != nil {
			return err
		}
		sum += loss
	}
	norm := t.gauge.Norm()
	if loss := sum * scale; !finite(norm) || !finite(loss) {
		return fmt.Errorf("step %d: the loss is %v and the gradient norm %v: the run has diverged; a lower rate or a longer warmup helps", t.step+1, loss, norm)
	}
	clip := 1.0
	if t.cfg.Clip > 0 && norm > t.cfg.Clip {
		clip = t.cfg.Clip / norm
	}
	rate := t.cfg.Optimizer.Rate * t.factor()
	t.mover.Step(rate, clip)
	t.model.Refresh(t.pool)
	t.step++
	t.tokens += len(t.batches) * t.cfg.BatchSize * t.cfg.SeqLen
	t.since.Steps++
	t.since.Tokens += len(t.batches) * t.cfg.BatchSize * t.cfg.SeqLen
	t.since.Loss += sum * scale
	t.since.Busy += time.Since(begin).Seconds()
	t.since.rate, t.since.norm = rate, norm
	return nil
}

// factor is the schedule's share of the peak rate for the coming step.
func (t *Trainer) factor() float64 {
	s, done := t.cfg.Stop, 0.0
	if t.cfg.Optimizer.Name == "schedule-free" {
		return t.cfg.Schedule.Warm(t.step)
	}
	if s.Steps > 0 {
		done = float64(t.step) / float64(s.Steps)
	}
	if s.Tokens > 0 {
		done = max(done, float64(t.tokens)/float64(s.Tokens))
	}
	if s.Steps == 0 && s.Tokens == 0 {
		done = t.watch.seconds() / s.Seconds
	}
	return t.cfg.Schedule.At(t.step, done)
}

// stop says which configured end is reached, if any.
func (t *Trainer) stop() string {
	switch s := t.cfg.Stop; {
	case s.Steps > 0 && t.step >= s.Steps:
		return "steps"
	case s.Tokens > 0 && t.tokens >= s.Tokens:
		return "tokens"
	case s.Seconds > 0 && t.watch.seconds() >= s.Seconds:
		return "time"
	}
	return ""
}
