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
	from   string // folder of the configuration, from that of the checkpoints
	pieces []int  // bytes that each token stands for

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

// Model is the model in training: the averaged one where the optimizer keeps
// an average, once Run has returned.
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

// ResumeLM builds the run that left the checkpoint at path, to go on from there
// as if it had never stopped. The corpus must be the one it was trained on.
func ResumeLM(path string, corpus *Corpus, opt Options) (*LMTrainer, error) {
	c, err := OpenLM(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	h := c.LM
	if !c.Of(corpus) {
		return nil, fmt.Errorf("resuming %s: it was trained on other text or with another tokenizer", path)
	}
	if opt.Stop != nil {
		h.Config.Stop = *opt.Stop
	}
	cfg := h.Config.WithDefaults()
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

// startLM puts a run together around a model whose tensors are frozen or not:
// from a checkpoint, or from the start when there is none.
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

// check refuses a corpus whose tokens the model does not have.
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

// startModel is the model a run begins with: drawn, or that of a file, relative
// to dir.
func startModel(cfg Config, dir string, corpus *Corpus) (*llm.Model[float32], error) {
	var m *llm.Model[float32]
	if cfg.Base != "" {
		base, vocabularies, err := baseModel(Resolve(dir, cfg.Base))
		if err != nil {
			return nil, err
		}
		m = base
		if len(vocabularies) > 0 && !slices.Contains(vocabularies, corpus.Vocabulary) {
			return nil, At("/base", fmt.Errorf("base %s has another tokenizer than the run: its embeddings would stand for other tokens; name its file under tokenizer", cfg.Base))
		}
		if want := cfg.Model; m.Config != want {
			return nil, At("/model", fmt.Errorf("base %s is a model of shape %+v, the configuration asks for %+v", cfg.Base, m.Config, want))
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

// batch is b as the model takes it.
func batch(b *dataset.Batch) llm.Batch[float32] {
	return llm.Batch[float32]{Tokens: b.Tokens, Targets: b.Targets, Starts: b.Starts}
}

// Refresh implements [Task].
func (l *LM) Refresh() { l.model.Refresh(l.pool) }

// Evaluate implements [Task].
func (l *LM) Evaluate() (Evaluation, error) {
	return evaluate(l.pass, l.corpus.Held, l.held, l.cfg.Eval.Windows, l.pieces)
}

// lmKind is the kind of a language model's checkpoints.
const lmKind = "lm"

// State implements [Task]. The tokenizer is kept beside the weights.
func (l *LM) State() (State, error) {
	s := State{Kind: lmKind, Header: LMHeader{
		Config: l.cfg, Model: l.model.Config, Position: l.loader.Position(), From: l.from, Text: l.corpus.Text, Tokenizer: l.corpus.Vocabulary,
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

// Way is the path to the folder to from the folder dir: relative, so that both
// can move together, where there is such a path; empty without dir.
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
