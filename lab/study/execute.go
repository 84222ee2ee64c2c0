package study

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset"
)

// Runner executes trials: a spec to its result, as [Execute] does.
type Runner interface {
	Run(ctx context.Context, spec []byte) (result []byte, err error)
}

// Local executes trials on this machine.
type Local struct {
	Dir      string         // folder of the study
	Observer train.Observer // of the training; may be nil
	Threads  int            // 0: all of the machine; does not change the result
}

// Execute executes a trial in the folder of a study. The result is a function of the spec
// alone: the folder holds the files that the spec names, which are verified, and
// checkpoints of the trial, which only save time.
func Execute(ctx context.Context, spec []byte, dir string) (result []byte, err error) {
	return Local{Dir: dir}.Run(ctx, spec)
}

// Run implements [Runner].
func (l Local) Run(ctx context.Context, spec []byte) ([]byte, error) {
	s, cfg, err := parseSpec(spec)
	if err != nil {
		return nil, err
	}
	for _, name := range sortedKeys(s.Files) {
		_, digest, err := fsx.Digest(filepath.Join(l.Dir, filepath.FromSlash(name)))
		if err != nil {
			return nil, fmt.Errorf("trial: %w", err)
		}
		if got := strings.TrimPrefix(digest, "sha256:"); got != s.Files[name] {
			return nil, fmt.Errorf("trial: file %s: digest mismatch: got %.12s…, want %.12s…", name, got, s.Files[name])
		}
	}
	sum := sha256.Sum256(spec)
	r := Result{Spec: hex.EncodeToString(sum[:])}
	if err := l.train(ctx, s, cfg, &r); err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

// train trains to the step of the spec and scores the model.
func (l Local) train(ctx context.Context, s Spec, cfg train.Config, r *Result) error {
	cfg.Data.Cache = "cache"
	corpus, err := train.Prepare(cfg, l.Dir)
	if err != nil {
		return err
	}
	defer corpus.Close()
	folder := filepath.Join(l.Dir, filepath.FromSlash(s.Folder))
	resume, err := resumable(folder, cfg, corpus, s.Until)
	if err != nil {
		return err
	}
	watch := &watcher{next: l.Observer, r: r}
	if resume {
		if watch.start, err = firstLoss(filepath.Join(folder, train.MetricsFile)); err != nil {
			return err
		}
	}
	r.Parameters = cfg.Model.Parameters()
	opt := train.Options{Dir: folder, From: l.Dir, Observer: watch, Threads: l.Threads, Pause: s.Until}
	t, err := train.RunFolder(ctx, cfg, corpus, resume, opt)
	var gone *divergence
	switch {
	case errors.As(err, &gone):
		r.Diverged = gone.Error()
		return nil
	case errors.Is(err, train.ErrDiverged):
		r.Diverged = oneLine(err)
		return nil
	case err != nil:
		return err
	}
	defer t.Close()
	if r.Weights, err = weights(filepath.Join(folder, train.LastFile)); err != nil {
		return err
	}
	return l.score(s, cfg, t, corpus, r)
}

// resumable reports whether the folder holds a checkpoint of this trial at most at the
// step. Other content is removed: the trial starts anew.
func resumable(folder string, cfg train.Config, corpus *train.Corpus, until int) (bool, error) {
	path := filepath.Join(folder, train.LastFile)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	c, err := train.OpenLM(path)
	fits := err == nil
	if fits {
		fits = c.Header.Resumable && c.Header.Step <= until && c.Of(corpus) && digestOf(normal(c.LM.Config)) == digestOf(normal(cfg))
		if err := c.Close(); err != nil {
			return false, err
		}
	}
	if fits {
		return true, nil
	}
	d, err := fsx.Open(folder, fsx.Options{})
	if err != nil {
		return false, err
	}
	for _, name := range []string{train.LastFile, train.BestFile, train.MetricsFile} {
		if e := d.Remove(name); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return false, errors.Join(err, d.Close())
}

// score scores the model in t on the documents of the spec.
func (l Local) score(s Spec, cfg train.Config, t *train.LMTrainer, corpus *train.Corpus, r *Result) error {
	docs, err := readDocuments(filepath.Join(l.Dir, filepath.FromSlash(s.Score)))
	if err != nil {
		return err
	}
	tokens, err := dataset.EncodeEach(docs, corpus.Tokenizer, dataset.EncodeOptions{Special: cfg.Data.Special})
	if err != nil {
		return err
	}
	workers := pool.New(l.Threads)
	defer workers.Close()
	model := t.Model()
	model.Refresh(workers)
	losses, err := train.EvaluateEach(model, workers, tokens, cfg.SeqLen, corpus.Tokenizer)
	if err != nil {
		return err
	}
	for _, d := range losses {
		r.Nats, r.Counts, r.Bytes = append(r.Nats, d.Nats), append(r.Counts, d.Predictions), append(r.Bytes, d.Bytes)
	}
	return nil
}

// weights returns the hex SHA-256 over the digests of a checkpoint's tensors.
func weights(path string) (string, error) {
	c, err := train.Open(path)
	if err != nil {
		return "", err
	}
	digests := c.Header.Digests
	return digestOf(digests), c.Close()
}

// margin is the share by which the loss of a report may exceed that of the first step.
const margin = 0.05

// divergence reports a loss above that of the first step.
type divergence struct {
	step        int
	loss, first float64
}

// Error implements error.
func (d *divergence) Error() string {
	return fmt.Sprintf("step %d: loss %.4f, more than %v %% above that of the first step, %.4f", d.step, d.loss, 100*margin, d.first)
}

// watcher stops a training that diverges and counts its steps.
type watcher struct {
	next  train.Observer
	r     *Result
	start float64 // loss of the first step; 0 before it
}

// Observe implements train.Observer.
func (w *watcher) Observe(e train.Event) error {
	if w.next != nil {
		if err := w.next.Observe(e); err != nil {
			return err
		}
	}
	switch e := e.(type) {
	case train.Step:
		w.r.Step, w.r.Tokens = e.Step, e.Tokens
		if e.Step == 1 {
			w.start = e.Loss
		}
		if w.start > 0 && e.Loss > w.start*(1+margin) {
			return &divergence{e.Step, e.Loss, w.start}
		}
	case train.Finished:
		w.r.Step, w.r.Tokens = e.Step, e.Tokens
	}
	return nil
}

// firstLoss reads the loss of the first step from the metrics of a trial.
func firstLoss(path string) (float64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	training, _, err := train.ReadCurves(f)
	if err != nil || len(training) == 0 {
		return 0, err
	}
	return training[0].Loss, nil
}

// readDocuments reads a part of the documents.
func readDocuments(path string) ([]dataset.Document, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	docs, err := dataset.Collect(dataset.ReadJSONL(f, dataset.Filter{}))
	if err == nil && len(docs) == 0 {
		err = fmt.Errorf("%s: no documents", path)
	}
	return slices.Clip(docs), err
}
