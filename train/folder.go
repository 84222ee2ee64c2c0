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

// ErrHeld says that a folder holds a run already.
var ErrHeld = errors.New("holds a run already")

// RunFolder trains the model of cfg in the folder opt.Dir: checkpoints, and the
// metrics of the run, one event a line. With resume it goes on from the last
// checkpoint there. The trainer is returned as it ended; close it. A folder that
// holds a run is [ErrHeld] without resume.
func RunFolder(ctx context.Context, cfg Config, corpus *Corpus, resume bool, opt Options) (*LMTrainer, error) {
	var t *LMTrainer
	err := InFolder(ctx, resume, opt, func(opt Options) (_ *Trainer, err error) {
		if resume {
			opt.Stop = &cfg.Stop
			t, err = ResumeLM(filepath.Join(opt.Dir, LastFile), corpus, opt)
		} else {
			t, err = NewLM(cfg, corpus, opt)
		}
		if err != nil {
			return nil, err
		}
		return t.Trainer, nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// InFolder runs what start makes in the folder opt.Dir as [RunFolder] does, and
// closes it where it fails. With resume, start goes on from [LastFile] there.
func InFolder(ctx context.Context, resume bool, opt Options, start func(Options) (*Trainer, error)) error {
	d, err := fsx.Create(opt.Dir, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	log, err := metricsLog(d, resume)
	if err != nil {
		return err
	}
	observers := Observers{Log{W: log}}
	if opt.Observer != nil {
		observers = append(observers, opt.Observer)
	}
	opt.Observer = observers
	t, err := start(opt)
	if err == nil {
		if err = t.Run(ctx); err != nil {
			t.Close()
		}
	}
	if e := log.Close(); err == nil && e != nil {
		t.Close()
		err = e
	}
	return err
}

// metricsLog opens the metrics of a run: empty, or cut to the last checkpoint.
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
