package modal

import (
	"context"
	"errors"
	"io"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train"
)

// RunFolder trains the recipe in the folder opt.Dir, as [train.RunFolder] does
// a language model. The trainer is returned as it ended; close it.
func RunFolder(ctx context.Context, r Recipe, resume bool, opt train.Options) (*Trainer, error) {
	return train.InFolder(ctx, resume, r.Stop, opt,
		func(opt train.Options) (*Trainer, error) { return New(ctx, r, opt) },
		func(path string, opt train.Options) (*Trainer, error) { return Resume(ctx, path, opt) })
}

// Close stops the run's threads and gives back what the task holds open.
func (t *Trainer) Close() error {
	return errors.Join(t.Trainer.Close(), t.task().Close())
}

// task is what is trained.
func (t *Trainer) task() io.Closer {
	if t.Reader != nil {
		return t.Reader
	}
	return t.Task
}

// MeasureOptions say what of a checkpoint is measured.
type MeasureOptions struct {
	N       int    // held-out examples; all questions of each are asked
	Dir     string // folder that the paths of its recipe are relative to; "": where it lay
	Threads int    // 0: what the machine has
}

// Measure asks the checkpoint at path about held-out examples, in each of the
// ways to show them. Nothing is written.
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
	if err := c.know(p.senses); err != nil {
		return nil, err
	}
	for _, t := range p.Tensors() {
		if err := c.Read(t.Name, t.Data, t.Shape); err != nil {
			return nil, err
		}
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
