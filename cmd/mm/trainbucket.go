package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/bucket"
	"mm-abi.org/mm/train"
)

// maxMetrics is the size in bytes up to which the metrics of a run are copied.
const maxMetrics = 64 << 20

// mirrored returns an observer that also copies the checkpoints of the run in dir
// to an address, and a function that waits for the copies. A resumed run first
// gets the checkpoint of the bucket, if that is ahead of the folder.
func (p *program) mirrored(ctx context.Context, address, dir string, resume bool, view train.Observer) (train.Observer, func(), error) {
	if address == "" {
		return view, func() {}, nil
	}
	b, place, err := openBucket(address)
	if err != nil {
		return nil, nil, err
	}
	if resume {
		if err := p.restore(ctx, b, place, dir); err != nil {
			return nil, nil, bucket.Fault(address, err)
		}
	}
	sessions, err := sessions()
	if err != nil {
		return nil, nil, err
	}
	m := bucket.NewMirror(ctx, b, place, bucket.MirrorOptions{Sessions: sessions, Cuts: train.Cuts, Report: func(text string) { p.say("%s", text) }})
	finish := func() {
		if failed := m.Close(); failed > 0 {
			p.say("warning: %d copies to %s failed; the checkpoints are in %s", failed, place, dir)
		}
	}
	return train.Observers{view, &copier{m: m, dir: dir}}, finish, nil
}

// restore downloads the last checkpoint of the bucket into dir, unless the folder
// holds one of that step or a later one.
func (p *program) restore(ctx context.Context, b bucket.Bucket, place bucket.Address, dir string) error {
	state, err := bucket.ReadState(ctx, b, place)
	if errors.Is(err, bucket.ErrMissing) {
		return nil // the folder's, or the usual error
	}
	if err != nil {
		return err
	}
	switch c, err := train.Open(filepath.Join(dir, train.LastFile)); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		step := c.Header.Step
		if err := c.Close(); err != nil || step >= state.Step {
			return err
		}
	}
	p.say("continuing from %s of step %d", place.Under(state.Name), state.Step)
	return bucket.Restore(ctx, b, place, state, dir, train.MetricsFile, train.BestFile)
}

// copier hands the files of a run to a mirror.
type copier struct {
	m           *bucket.Mirror
	dir         string
	epoch, kept int // whole passes over the data: until now, at the last copy of one
}

// Observe implements train.Observer.
func (c *copier) Observe(e train.Event) error {
	switch e := e.(type) {
	case train.Step:
		c.epoch = int(e.Epoch)
	case train.Evaluated:
		if e.Best {
			c.m.Save(train.BestFile, filepath.Join(c.dir, train.BestFile), e.Step, false)
		}
	case train.Saved:
		c.metrics(e.Step)
		c.m.Save(train.LastFile, e.Path, e.Step, true)
		if c.epoch > c.kept {
			c.kept = c.epoch
			c.m.Keep(fmt.Sprintf("epoch-%04d.safetensors", c.epoch), e.Path, e.Step)
		}
	case train.Finished:
		c.metrics(e.Step)
	}
	return nil
}

// metrics copies the metrics as they are now.
func (c *copier) metrics(step int) {
	if data, err := fsx.ReadFile(filepath.Join(c.dir, train.MetricsFile), maxMetrics); err == nil {
		c.m.SaveBytes(train.MetricsFile, data, step)
	}
}
