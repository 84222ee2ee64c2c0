package track

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

// MirrorOptions configures [Mirror].
type MirrorOptions struct {
	bucket.Files        // of the copies
	Dir          string // of the run
	Resume       bool   // first fetch the checkpoint of the bucket, if it is ahead of the folder
	Say          func(text string)
}

// Mirror returns an observer that copies the checkpoints of a run to a bucket, and a
// function that waits for the copies.
func Mirror(ctx context.Context, opt MirrorOptions) (train.Observer, func(), error) {
	if opt.Resume {
		if err := restore(ctx, opt); err != nil {
			return nil, nil, bucket.Fault(opt.Place.String(), err)
		}
	}
	m := bucket.NewMirror(ctx, opt.Bucket, opt.Place, bucket.MirrorOptions{Sessions: opt.Sessions, Cuts: train.Cuts, Report: opt.Say})
	return &copier{m: m, dir: opt.Dir}, func() {
		if failed := m.Close(); failed > 0 {
			opt.Say(fmt.Sprintf("warning: %d copies to %s failed; the checkpoints are in %s", failed, opt.Place, opt.Dir))
		}
	}, nil
}

// restore downloads the last checkpoint of the bucket into the folder, unless the folder
// holds one of that step or a later one.
func restore(ctx context.Context, opt MirrorOptions) error {
	state, err := bucket.ReadState(ctx, opt.Bucket, opt.Place)
	if errors.Is(err, bucket.ErrMissing) {
		return nil // the folder's, or the usual error
	}
	if err != nil {
		return err
	}
	switch c, err := train.Open(filepath.Join(opt.Dir, train.LastFile)); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		step := c.Header.Step
		if err := c.Close(); err != nil || step >= state.Step {
			return err
		}
	}
	opt.Say(fmt.Sprintf("continuing from %s of step %d", opt.Place.Under(state.Name), state.Step))
	return bucket.Restore(ctx, opt.Bucket, opt.Place, state, opt.Dir, train.MetricsFile, train.BestFile)
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
