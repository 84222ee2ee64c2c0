package train

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"mm-abi.org/mm/core/dataset"
	"mm-abi.org/mm/core/llm"
	"mm-abi.org/mm/core/optim"
	"mm-abi.org/mm/core/pool"
)

// startModel is the model a run begins with: drawn, or that of a file, relative
// to dir.
func startModel(cfg Config, dir string, corpus *Corpus) (*llm.Model[float32], error) {
	var m *llm.Model[float32]
	if cfg.Base != "" {
		base, vocabularies, err := baseModel(resolve(dir, cfg.Base))
		if err != nil {
			return nil, err
		}
		m = base
		if len(vocabularies) > 0 && !slices.Contains(vocabularies, corpus.Vocabulary) {
			return nil, fmt.Errorf("base %s has another tokenizer than the run: its embeddings would stand for other tokens; name its file under tokenizer", cfg.Base)
		}
		if want := cfg.Model; m.Config != want {
			return nil, fmt.Errorf("base %s is a model of shape %+v, the configuration asks for %+v", cfg.Base, m.Config, want)
		}
	} else {
		var err error
		if m, err = llm.New[float32](cfg.Model); err != nil {
			return nil, err
		}
		if err = m.Init(cfg.Init); err != nil {
			return nil, err
		}
	}
	m, err := cfg.Freeze.apply(m)
	if err == nil && cfg.LoRA != nil {
		err = m.Adapt(*cfg.LoRA, cfg.Seed)
	}
	return m, err
}

// build puts a run together around a model whose tensors are frozen or not.
func build(cfg Config, m *llm.Model[float32], corpus *Corpus, opt Options, pos dataset.Position) (*Trainer, error) {
	t := &Trainer{cfg: cfg, opt: opt, corpus: corpus, model: m}
	var err error
	if t.loader, err = dataset.NewLoader(corpus.Train, cfg.SeqLen, pos); err != nil {
		return nil, fmt.Errorf("training data: %w", err)
	}
	if err := corpus.Train.Check(m.Config.Vocab); err != nil {
		return nil, fmt.Errorf("training data: %w", err)
	}
	if corpus.Held == nil && cfg.Stop.Loss > 0 {
		return nil, fmt.Errorf("a target loss: %w", errNoHeld)
	}
	if corpus.Held != nil {
		if err := corpus.Held.Check(m.Config.Vocab); err != nil {
			return nil, fmt.Errorf("held-out data: %w", err)
		}
	}
	params, err := parameters(m, cfg.Optimizer)
	if err != nil {
		return nil, err
	}
	if len(params) == 0 {
		return nil, fmt.Errorf("training configuration: every tensor is frozen")
	}
	threads := cfg.Threads
	if opt.Threads > 0 {
		threads = opt.Threads
	}
	t.pool = pool.New(threads)
	t.pass = m.NewPass(t.pool, cfg.BatchSize, cfg.SeqLen)
	t.mover, t.gauge = newMover(cfg.Optimizer, params, t.pool), optim.NewGauge(params, t.pool)
	t.seal = newSeal(m, t.pool)
	for range cfg.Accumulate {
		t.batches = append(t.batches, dataset.NewBatch(cfg.BatchSize, cfg.SeqLen))
	}
	t.held = dataset.NewBatch(cfg.BatchSize, cfg.SeqLen)
	t.pieces = pieces(corpus.Tokenizer, m.Config.Vocab)
	return t, nil
}

// parameters lists what trains for the optimizer.
func parameters(m *llm.Model[float32], o Optimizer) ([]optim.Param, error) {
	for _, p := range slices.Sorted(maps.Keys(o.Rates)) {
		if !slices.ContainsFunc(m.Tensors(), func(t *llm.Tensor[float32]) bool { ok, _ := path.Match(p, t.Name); return ok }) {
			return nil, fmt.Errorf("optimizer: rates: no tensor matches %q", p)
		}
	}
	var all []optim.Param
	for _, w := range m.Tensors() {
		if w.Grad != nil {
			all = append(all, optim.Param{Name: w.Name, Shape: w.Shape, Data: w.Data, Grad: w.Grad,
				Decay: w.Matrix(), Hidden: w.Matrix() && w.Layer >= 0, Rate: o.rate(w.Name)})
		}
	}
	return all, nil
}

func newMover(o Optimizer, params []optim.Param, p *pool.Pool) mover {
	adam := optim.AdamWOptions{Beta1: o.Beta1, Beta2: o.Beta2, Epsilon: o.Epsilon, Decay: o.WeightDecay}
	switch o.Name {
	case "lion":
		return optim.NewLion(params, optim.LionOptions{Beta1: o.Beta1, Beta2: o.Beta2, Decay: o.WeightDecay}, p)
	case "muon":
		return optim.NewMuon(params, optim.MuonOptions{Momentum: o.MuonMomentum, Ratio: o.MuonRatio, Steps: o.MuonSteps, Decay: o.WeightDecay, Adam: adam}, p)
	case "schedule-free":
		return optim.NewScheduleFree(params, adam, p)
	}
	return optim.NewAdamW(params, adam, p)
}
