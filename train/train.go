// Package train runs the training of a network: the loop, what is frozen,
// evaluation and checkpoints; and of a small language model in particular, with
// its configuration, its data and the files that leave it.
//
// The way of a run: a [Task] is what is trained, a [Run] how. [New], or [Resume]
// from a checkpoint, makes a [Trainer] of them; Trainer.Run walks steps until
// the first of the configured stops. One step reads Accumulate batches, has the
// task go forward and backward over each, measures the gradient, and moves the
// weights:
//
//	batches → loss and gradients → norm, clip → optimizer → frozen hashes
//
// The way of a language model: [Config] says everything; [Prepare] reads the
// data and the tokenizer; [NewLM], or [ResumeLM], builds the trainer of an [LM];
// [ExportGGUF] writes what comes of it.
//
// A run is a function of its configuration and data: the same loss curve, bit
// for bit, on any number of threads and through any number of interruptions.
package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/optim"
)

// Options is what surrounds a run and changes nothing in it.
type Options struct {
	Dir      string               // folder of checkpoints; "" keeps none
	From     string               // folder that the paths of a Config are relative to
	Observer Observer             // nil tells nobody
	Threads  int                  // overrides Config.Threads when above 0
	CPU      func() time.Duration // processor time of this process; nil reports none
	Stop     *Stop                // in ResumeLM: replaces the stops of the checkpoint
}

// Trainer is a run in progress. It belongs to one goroutine.
type Trainer struct {
	cfg  Run
	opt  Options
	task Task
	size Size

	pool  *pool.Pool
	mover mover
	gauge *optim.Gauge
	seal  *seal

	step, tokens int
	best         float64 // lowest held-out loss; 0 before the first
	watch        *stopwatch
	since        report
}

// mover is an optimizer: those of train/optim.
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

// New builds a run of task from the start. workers become the trainer's: Close
// stops them, and so does an error here.
func New(cfg Run, task Task, workers *pool.Pool, opt Options) (*Trainer, error) {
	t, err := build(cfg, task, workers, opt)
	if err != nil {
		workers.Close()
	}
	return t, err
}

func build(cfg Run, task Task, workers *pool.Pool, opt Options) (*Trainer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("training configuration: %w", err)
	}
	t := &Trainer{cfg: cfg, opt: opt, task: task, size: task.Size(), pool: workers}
	if t.size.Held == 0 && cfg.Stop.Loss > 0 {
		return nil, At("/stop/loss", fmt.Errorf("a target loss: %w", errNoHeld))
	}
	params, err := parameters(task.Tensors(), cfg.Optimizer)
	if err != nil {
		return nil, err
	}
	if len(params) == 0 {
		return nil, At("/freeze", errors.New("training configuration: every tensor is frozen"))
	}
	t.mover, t.gauge = newMover(cfg.Optimizer, params, t.pool), optim.NewGauge(params, t.pool)
	t.seal = newSeal(task.Tensors(), t.pool)
	return t, nil
}

// Close stops the run's threads, without an error. The task stays as it is.
func (t *Trainer) Close() error {
	t.pool.Close()
	return nil
}

// Run trains until the first of the configured stops, or until ctx ends, which
// saves a checkpoint to resume from and returns ctx's error.
func (t *Trainer) Run(ctx context.Context) error {
	if t.watch == nil {
		t.watch = startWatch(0, 0, t.opt.CPU)
	}
	if err := t.tell(t.started()); err != nil {
		return err
	}
	t.task.Refresh()
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
	n, err := t.task.Batches(t.cfg.Accumulate)
	if err != nil {
		return err
	}
	scale := 1 / float64(max(n, 1))
	var sum float64
	for i := range t.cfg.Accumulate {
		loss, err := t.task.Pass(i, scale, i > 0)
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
	t.task.Refresh()
	tokens := t.cfg.Accumulate * t.size.Batch
	t.step++
	t.tokens += tokens
	t.since.Steps++
	t.since.Tokens += tokens
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
