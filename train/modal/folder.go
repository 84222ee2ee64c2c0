package modal

import (
	"context"
	"errors"
	"io"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train"
)

// RunFolder trains the recipe in the folder opt.Dir, as [train.RunFolder] does
// a language model. The caller closes the returned trainer.
func RunFolder(ctx context.Context, r Recipe, resume bool, opt train.Options) (*Trainer, error) {
	r = r.WithDefaults()
	if resume {
		opt.Resumed = &train.Resumed{Recipe: r, Stop: r.Stop, Threads: r.Threads}
	}
	return train.InFolder(ctx, resume, opt,
		func(opt train.Options) (*Trainer, error) { return New(ctx, r, opt) },
		func(path string, opt train.Options) (*Trainer, error) { return Resume(ctx, path, opt) })
}

// Close stops the run's threads and closes the task.
func (t *Trainer) Close() error {
	return errors.Join(t.Trainer.Close(), t.task().Close())
}

// task returns the trained task.
func (t *Trainer) task() io.Closer {
	if t.Reader != nil {
		return t.Reader
	}
	return t.Task
}

// MeasureOptions configure a measurement.
type MeasureOptions struct {
	N       int    // held-out examples, with all of their questions
	Dir     string // folder of the recipe's paths; "": as recorded in the checkpoint
	Threads int    // 0: all of the machine
}

// Measure evaluates the checkpoint at path on questions about held-out
// examples, for each of the looks. It writes nothing.
func Measure(ctx context.Context, path string, looks []Look, opt MeasureOptions) ([]train.Evaluation, error) {
	c, err := OpenCheckpoint(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if opt.Dir == "" {
		opt.Dir = c.Dir()
	}
	workers := pool.New(opt.Threads)
	defer workers.Close()
	if c.Perception.Recipe.Reads() {
		return measureReader(c, opt, workers)
	}
	p, err := newPerception(ctx, c.Perception.Recipe.WithDefaults(), opt.Dir, workers)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if err := c.checkEncoders(p.senses); err != nil {
		return nil, err
	}
	if err := c.ReadInto(p.Tensors()); err != nil {
		return nil, err
	}
	p.model.Stale()
	p.Refresh()
	var all []train.Evaluation
	for _, look := range looks {
		e, err := p.Try(Trial{N: opt.N, All: true, Look: look})
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}
