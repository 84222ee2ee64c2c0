package train

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

// LM is the training of a language model on a corpus: a [Task].
type LM struct {
	cfg    Config
	corpus *Corpus
	from   string // folder of the configuration, relative to that of the checkpoints
	pieces []int  // bytes of each token

	pool    *pool.Pool
	model   *llm.Model[float32]
	pass    *llm.Pass[float32]
	loader  *dataset.Loader
	batches []*dataset.Batch // of one step
	held    *dataset.Batch
}

// LMTrainer is the trainer of a language model.
type LMTrainer struct {
	*Trainer
	task *LM
}

// Model returns the model in training: after Run, the averaged one if the
// optimizer averages.
func (t *LMTrainer) Model() *llm.Model[float32] { return t.task.model }

// NewLM builds the run of a language model from the start.
func NewLM(cfg Config, corpus *Corpus, opt Options) (*LMTrainer, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("training configuration: %w", err)
	}
	m, err := startModel(cfg, opt.From, corpus)
	if err != nil {
		return nil, err
	}
	return startLM(cfg, m, corpus, opt, dataset.Position{Seed: cfg.Seed}, nil)
}

// ResumeLM builds the interrupted run with the checkpoint at path; the result
// is bit-identical to that of an uninterrupted run. The corpus must be the
// same.
func ResumeLM(path string, corpus *Corpus, opt Options) (*LMTrainer, error) {
	c, err := OpenLM(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	h := c.LM
	if !c.Of(corpus) {
		return nil, fmt.Errorf("resuming %s: text or tokenizer differs from the run's%s", path, changedObjects(h.Lineage, corpus.Lineage))
	}
	cfg := h.Config.WithDefaults()
	if err := opt.Continue(cfg, &cfg.Stop, &cfg.Threads, c.Dir()); err != nil {
		return nil, err
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("resuming %s: %w", path, err)
	}
	m, err := c.Model()
	if err != nil {
		return nil, err
	}
	if cfg.LoRA == nil {
		if m, err = cfg.Freeze.apply(m); err != nil {
			return nil, err
		}
	}
	return startLM(cfg, m, corpus, opt, h.Position, c.Checkpoint)
}

// startLM builds a run around a model with its frozen tensors set, from a
// checkpoint or, if from is nil, from the start.
func startLM(cfg Config, m *llm.Model[float32], corpus *Corpus, opt Options, pos dataset.Position, from *Checkpoint) (*LMTrainer, error) {
	l := &LM{cfg: cfg, corpus: corpus, model: m, from: Way(opt.Dir, opt.From)}
	if err := l.check(); err != nil {
		return nil, err
	}
	var err error
	if l.loader, err = dataset.NewLoader(corpus.Train, cfg.SeqLen, pos); err != nil {
		return nil, fmt.Errorf("training data: %w", err)
	}
	l.pool = opt.Pool(cfg.Threads)
	m.BF16 = cfg.Precision == BF16
	l.pass = m.NewPass(l.pool, cfg.BatchSize, cfg.SeqLen)
	l.held = dataset.NewBatch(cfg.BatchSize, cfg.SeqLen)
	l.pieces = pieces(corpus.Tokenizer, m.Config.Vocab)
	var t *Trainer
	if from != nil {
		t, err = Resume(from, cfg.run(), l, l.pool, opt)
	} else {
		t, err = New(cfg.run(), l, l.pool, opt)
	}
	if err != nil {
		return nil, err
	}
	return &LMTrainer{t, l}, nil
}

// check checks that the model has all tokens of the corpus.
func (l *LM) check() error {
	if err := l.corpus.Train.Check(l.model.Config.Vocab); err != nil {
		return fmt.Errorf("training data: %w", err)
	}
	if l.corpus.Held != nil {
		if err := l.corpus.Held.Check(l.model.Config.Vocab); err != nil {
			return fmt.Errorf("held-out data: %w", err)
		}
	}
	return nil
}

// startModel returns the initial model of a run: random, or that of a file
// relative to dir.
func startModel(cfg Config, dir string, corpus *Corpus) (*llm.Model[float32], error) {
	var m *llm.Model[float32]
	if cfg.Base != "" {
		base, vocabularies, err := adaptedModel(Resolve(dir, cfg.Base), cfg.LoRA)
		if err != nil {
			return nil, err
		}
		m = base
		if len(vocabularies) > 0 && !slices.Contains(vocabularies, corpus.Vocabulary) {
			return nil, At("/base", fmt.Errorf("base %s: tokenizer differs from the run's; set tokenizer.file to that of the base", cfg.Base))
		}
		if want := cfg.Model; m.Config != want {
			return nil, At("/model", fmt.Errorf("base %s: shape mismatch: got %+v, want %+v", cfg.Base, m.Config, want))
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
		err = At("/lora", m.Adapt(*cfg.LoRA, cfg.Seed))
	}
	return m, err
}

// adaptedModel is baseModel for adapters.
func adaptedModel(path string, lora *llm.LoRA) (*llm.Model[float32], []string, error) {
	if lora == nil || !lora.Quantized {
		return baseModel(path)
	}
	m, tok, err := OpenQuantized(path)
	if err != nil || tok == nil {
		return m, nil, err
	}
	return m, []string{dataset.TokenizerDigest(tok)}, nil
}

// Tensors implements [Task].
func (l *LM) Tensors() []*nn.Tensor[float32] { return l.model.Tensors() }

// Size implements [Task].
func (l *LM) Size() Size {
	s := Size{FLOPs: l.model.Config.FLOPs(l.cfg.SeqLen), Batch: l.cfg.BatchSize * l.cfg.SeqLen, Train: l.corpus.Train.Len()}
	if l.corpus.Held != nil {
		s.Held = l.corpus.Held.Len()
	}
	return s
}

// Batches implements [Task].
func (l *LM) Batches(k int) (terms int, err error) {
	for len(l.batches) < k {
		l.batches = append(l.batches, dataset.NewBatch(l.cfg.BatchSize, l.cfg.SeqLen))
	}
	for _, b := range l.batches[:k] {
		l.loader.Next(b)
		terms += llm.Count(b.Targets)
	}
	return terms, nil
}

// Pass implements [Task].
func (l *LM) Pass(i int, scale float64, add bool) (loss float64, err error) {
	return l.pass.Train(batch(l.batches[i]), scale, add)
}

// batch converts b for the model.
func batch(b *dataset.Batch) llm.Batch[float32] {
	return llm.Batch[float32]{Tokens: b.Tokens, Targets: b.Targets, Starts: b.Starts}
}

// Refresh implements [Task].
func (l *LM) Refresh() { l.model.Refresh(l.pool) }

// Lineage implements [Traced].
func (l *LM) Lineage() []Lineage { return l.corpus.Lineage }

// Evaluate implements [Task].
func (l *LM) Evaluate() (Evaluation, error) {
	return evaluate(l.pass, l.corpus.Held, l.held, l.cfg.Eval.Windows, l.pieces)
}

// LMKind is the task kind of a language model's checkpoints.
const LMKind = "lm"

// State implements [Task]. It includes the tokenizer.
func (l *LM) State() (State, error) {
	s := State{Kind: LMKind, Header: LMHeader{
		Config: l.cfg, Model: l.model.Config, Position: l.loader.Position(), From: l.from, Text: l.corpus.Text, Tokenizer: l.corpus.Vocabulary, Lineage: l.corpus.Lineage,
	}}
	if l.corpus.Tokenizer == nil {
		return s, nil
	}
	var b bytes.Buffer
	if _, err := gguf.Write(&b, l.corpus.Tokenizer.KVs(), nil); err != nil {
		return s, fmt.Errorf("saving the tokenizer: %w", err)
	}
	s.Tensors = append(s.Tensors, safetensors.Source{Name: tokenizerName, DType: safetensors.U8, Shape: []int{b.Len()}, Data: safetensors.Bytes(b.Bytes())})
	return s, nil
}

// Way returns the path from the folder dir to the folder to, relative if
// possible, so that both can move together. Without dir it is empty.
func Way(dir, to string) string {
	if dir == "" {
		return ""
	}
	from, err1 := filepath.Abs(dir)
	target, err2 := filepath.Abs(to)
	if errors.Join(err1, err2) != nil {
		return ""
	}
	if rel, err := filepath.Rel(from, target); err == nil {
		return filepath.ToSlash(rel)
	}
	return filepath.ToSlash(target)
}
