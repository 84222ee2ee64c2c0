// Package train runs the training of a network: the loop, frozen tensors,
// evaluation and checkpoints; and of a small language model in particular, with
// its configuration, its data and its exported files.
//
// A [Task] defines the subject of the training, a [Run] its settings. [New], or
// [Resume] from a checkpoint, builds a [Trainer]; Trainer.Run runs steps until
// the first of the configured stops. A step reads Accumulate batches, runs the
// task forward and backward over each, measures the gradient norm, and updates
// the weights:
//
//	batches → loss and gradients → norm, clip → optimizer → frozen hashes
//
// For a language model, [Prepare] reads the data and the tokenizer of a
// [Config]; [NewLM], or [ResumeLM], builds the trainer of an [LM]; [ExportGGUF]
// writes the result.
//
// A run is a function of its configuration and data: the loss curve is
// bit-identical on any number of threads and through any number of
// interruptions.
package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/optim"
)

// Options configure the environment of a run, without effect on the result.
type Options struct {
	Dir      string               // folder of checkpoints; "" writes none
	From     string               // folder of the paths of a Config
	Observer Observer             // may be nil
	Threads  int                  // overrides Config.Threads if above 0
	CPU      func() time.Duration // processor time of this process; may be nil
	Resumed  *Resumed             // the recipe that resumes a run; nil: that of the checkpoint
	Pause    int                  // end the session after this step, without an error, to be resumed; 0: never
}

// ErrDiverged reports that the loss or the gradient of a run is not finite.
var ErrDiverged = errors.New("run diverged")

// Resumed is the recipe, with its defaults, that resumes a run. Stop and Threads
// apply; any other difference from the recipe of the run is an error.
type Resumed struct {
	Recipe  any
	Stop    Stop
	Threads int
}

// Trainer is a run in progress. It is for one goroutine.
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

// mover is an optimizer of train/optim.
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

// report sums the steps since the last report.
type report struct {
	Unreported
	rate, norm float64 // of the last step
}

// New builds a run of task from the start. The trainer takes over workers:
// Close stops them, and so does an error here.
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
		return nil, At("/stop/loss", fmt.Errorf("target loss: %w", errNoHeld))
	}
	params, err := parameters(task.Tensors(), cfg.Optimizer)
	if err != nil {
		return nil, err
	}
	if len(params) == 0 {
		return nil, At("/freeze", errors.New("training configuration: all tensors are frozen"))
	}
	t.mover, t.gauge = newMover(cfg.Optimizer, params, t.pool), optim.NewGauge(params, t.pool)
	t.seal = newSeal(task.Tensors(), t.pool)
	return t, nil
}

// Close stops the run's threads. It does not close the task and returns nil.
func (t *Trainer) Close() error {
	t.pool.Close()
	return nil
}

// Run trains until the first of the configured stops or until ctx is done; then
// it saves a checkpoint to resume from and returns ctx's error.
func (t *Trainer) Run(ctx context.Context) error {
	if t.watch == nil {
		t.watch = startWatch(0, 0, t.opt.CPU)
	}
	if err := t.tell(t.started()); err != nil {
		return err
	}
	t.task.Refresh()
	reason := t.stop() // of a run resumed at its end
	for reason == "" {
		if ctx.Err() != nil {
			return t.interrupted(ctx)
		}
		if t.opt.Pause > 0 && t.step >= t.opt.Pause {
			return t.pause(ctx)
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

// advance runs one step.
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
		return fmt.Errorf("step %d: %w: loss %v, gradient norm %v; try a lower rate or a longer warmup", t.step+1, ErrDiverged, loss, norm)
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

// factor returns the schedule's factor of the peak rate for the next step.
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

// stop returns the configured end that is reached, or "".
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
