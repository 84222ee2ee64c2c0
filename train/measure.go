package train

import (
	"context"
	"fmt"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/dataset"
)

// MeasureOptions say what of a checkpoint is measured.
type MeasureOptions struct {
	Dir     string   // folder that the paths of its configuration are relative to; "": where it lay
	Windows int      // at most so many; 0: all
	Threads int      // 0: what the machine has
	NGram   bool     // baselines by counting, too
	Samples []string // texts to continue
}

// Measured is what measuring gives.
type Measured struct {
	Evaluation
	NGram   *dataset.Baselines // nil: not asked for
	Samples []string           // prompts with what follows
}

// Measure measures the checkpoint at path on the held-out data of the
// configuration it was trained by. Nothing is written.
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
	cfg.Data.Cache = "" // nothing is written, wherever a checkpoint wants it
	if opt.Dir == "" {
		opt.Dir = ck.Dir()
	}
	corpus, err := Prepare(cfg, opt.Dir)
	if err != nil {
		return out, misplaced{err, "--data names the folder that the configuration's paths are relative to"}
	}
	defer corpus.Close()
	if !ck.Of(corpus) {
		return out, misplaced{fmt.Errorf("%s was trained on other text or with another tokenizer than the files give now", path), "measure it beside the files it was trained on"}
	}
	if err := ctx.Err(); err != nil {
		return out, err
	}
	workers := pool.New(opt.Threads)
	defer workers.Close()
	model.Refresh(workers)
	if out.Evaluation, err = Evaluate(model, workers, corpus.Held, cfg.SeqLen, opt.Windows, corpus.Tokenizer); err != nil {
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

// misplaced is an error with a way out, which whoever prints it asks for.
type misplaced struct {
	error
	hint string
}

// Unwrap is the error.
func (m misplaced) Unwrap() error { return m.error }

// Hint is the way out.
func (m misplaced) Hint() string { return m.hint }
