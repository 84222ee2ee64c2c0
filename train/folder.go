package train

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
)

// ErrHeld is returned for a folder that already holds a run.
var ErrHeld = errors.New("already holds a run")

// RunFolder trains the model of cfg in the folder opt.Dir and writes the
// checkpoints and the metrics, one event per line, there. If resume is set, the
// run continues from the last checkpoint there; otherwise a folder that holds a
// run is [ErrHeld]. The caller closes the returned trainer.
func RunFolder(ctx context.Context, cfg Config, corpus *Corpus, resume bool, opt Options) (*LMTrainer, error) {
	cfg = cfg.WithDefaults()
	if resume {
		opt.Resumed = &Resumed{cfg, cfg.Stop, cfg.Threads}
	}
	return InFolder(ctx, resume, opt,
		func(opt Options) (*LMTrainer, error) { return NewLM(cfg, corpus, opt) },
		func(path string, opt Options) (*LMTrainer, error) { return ResumeLM(path, corpus, opt) })
}

// InFolder runs a trainer in the folder opt.Dir as [RunFolder] does: one that
// begin builds or, if resume is set, one that goOn builds from the checkpoint
// at path. If the run fails, InFolder closes the trainer.
func InFolder[T interface {
	Run(context.Context) error
	io.Closer
}](ctx context.Context, resume bool, opt Options, begin func(Options) (T, error), goOn func(path string, opt Options) (T, error)) (T, error) {
	var none, t T
	d, err := fsx.Create(opt.Dir, 0o755, fsx.Options{})
	if err != nil {
		return none, err
	}
	defer d.Close()
	log, err := metricsLog(d, resume)
	if err != nil {
		return none, err
	}
	observers := Observers{Log{W: log}}
	if opt.Observer != nil {
		observers = append(observers, opt.Observer)
	}
	opt.Observer = observers
	if resume {
		t, err = goOn(filepath.Join(opt.Dir, LastFile), opt)
	} else {
		t, err = begin(opt)
	}
	if err != nil {
		return none, errors.Join(err, log.Close())
	}
	if err = errors.Join(t.Run(ctx), log.Close()); err != nil {
		return none, errors.Join(err, t.Close())
	}
	return t, nil
}

// metricsLog opens the metrics of a run, truncated to the last checkpoint.
func metricsLog(d *fsx.Dir, resume bool) (io.WriteCloser, error) {
	metrics, last := filepath.Join(d.Path(), MetricsFile), filepath.Join(d.Path(), LastFile)
	if !resume {
		if _, err := os.Stat(last); err == nil {
			return nil, fmt.Errorf("%s %w", d.Path(), ErrHeld)
		}
		if err := d.Remove(MetricsFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		return d.Append(MetricsFile, 0o644)
	}
	ck, err := Open(last)
	if err != nil {
		return nil, err
	}
	if err := ck.Close(); err != nil {
		return nil, err
	}
	if err := TrimMetrics(metrics, ck.Header.Step); err != nil {
		return nil, err
	}
	return d.Append(MetricsFile, 0o644)
}
