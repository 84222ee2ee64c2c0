package train

import (
	"context"
	"errors"
	"fmt"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/llm"
)

// MeasureOptions configure a measurement.
type MeasureOptions struct {
	Dir     string   // folder of the configuration's paths; "": as recorded in the checkpoint
	Windows int      // at most this many; 0: all
	Threads int      // 0: all of the machine
	NGram   bool     // include n-gram baselines
	Samples []string // texts to continue
	Objects Objects  // of data in buckets; nil: addresses are faults
}

// Measured is the result of a measurement.
type Measured struct {
	Evaluation
	Adapters *Recovery          // their change; nil: a model without, or too little text
	NGram    *dataset.Baselines // nil: not requested
	Samples  []string           // prompts with their continuations
}

// Measure measures the checkpoint at path on the held-out data of its
// configuration. It writes nothing but copies of token ids in buckets to the cache.
func Measure(ctx context.Context, path string, opt MeasureOptions) (Measured, error) {
	var out Measured
	ck, err := OpenLM(path)
	if err != nil {
		return out, err
	}
	defer ck.Close()
	model, err := ck.Model()
	if err != nil {
		return out, err
	}
	cfg := ck.LM.Config.WithDefaults()
	if cfg.Data.Format != uint16Format || !cfg.Data.remote() {
		cfg.Data.Cache = "" // do not write, even if the checkpoint has a cache
	}
	if opt.Dir == "" {
		opt.Dir = ck.Dir()
	}
	corpus, err := PrepareFrom(ctx, cfg, opt.Dir, opt.Objects)
	if err != nil {
		return out, misplaced{err, "--data sets the folder of the configuration's paths"}
	}
	defer corpus.Close()
	if !ck.Of(corpus) {
		return out, misplaced{fmt.Errorf("%s: text or tokenizer differs from the current files", path), "measure it with the files it was trained on"}
	}
	if err := ctx.Err(); err != nil {
		return out, err
	}
	workers := pool.New(opt.Threads)
	defer workers.Close()
	model.Refresh(workers)
	if ck.LM.Config.LoRA == nil || corpus.Tokenizer == nil {
		out.Evaluation, err = Evaluate(model, workers, corpus.Held, cfg.SeqLen, opt.Windows, corpus.Tokenizer)
	} else {
		err = out.adapted(model, workers, corpus, cfg.SeqLen, opt.Windows)
	}
	if err != nil {
		return out, err
	}
	if opt.NGram {
		base, err := dataset.NGrams(corpus.Train, corpus.Held, ck.LM.Model.Vocab)
		if err != nil {
			return out, err
		}
		out.NGram = &base
	}
	for _, prompt := range opt.Samples {
		text, err := Sample(model, corpus.Tokenizer, prompt, SampleOptions{Temperature: 0.8})
		if err != nil {
			return out, err
		}
		out.Samples = append(out.Samples, prompt+text)
	}
	return out, ctx.Err()
}

// adapted measures a model with adapters once, and once without them.
func (out *Measured) adapted(m *llm.Model[float32], p *pool.Pool, c *Corpus, T, limit int) error {
	w, err := windowLosses(m, p, c.Held, T, limit, c.Tokenizer)
	if err != nil {
		return err
	}
	if out.Evaluation, err = w.evaluation(); err != nil {
		return err
	}
	r, err := recovered(m, p, c.Held, T, limit, c.Tokenizer, w)
	switch {
	case err == nil:
		out.Adapters = &r
	case !errors.Is(err, errFew):
		return err
	}
	return nil
}

// misplaced is an error with a hint.
type misplaced struct {
	error
	hint string
}

// Unwrap returns the error.
func (m misplaced) Unwrap() error { return m.error }

// Hint returns the hint.
func (m misplaced) Hint() string { return m.hint }
