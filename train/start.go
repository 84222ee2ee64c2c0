package train

import (
	"encoding/json"
	"errors"
	"fmt"

	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/optim"
)

// Start is the run of a language model before its first step, for a trainer in
// another program.
type Start struct {
	Config     Config // with defaults
	Model      *llm.Model[float32]
	Parameters []optim.Param // those that train
	Steps      int           // of the run

	lm *LM
}

// NewStart prepares a run that ends after a number of steps or tokens. Paths
// are relative to dir.
func NewStart(cfg Config, corpus *Corpus, dir string) (*Start, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("training configuration: %w", err)
	}
	m, err := startModel(cfg, dir, corpus)
	if err != nil {
		return nil, err
	}
	s := &Start{Config: cfg, Model: m, Steps: cfg.Stop.steps(cfg.Accumulate * cfg.BatchSize * cfg.SeqLen), lm: &LM{cfg: cfg, corpus: corpus, model: m}}
	if s.Steps == 0 {
		return nil, At("/stop", errors.New("stop: want steps or tokens"))
	}
	if err := s.lm.check(); err != nil {
		return nil, err
	}
	if s.lm.loader, err = dataset.NewLoader(corpus.Train, cfg.SeqLen, dataset.Position{Seed: cfg.Seed}); err != nil {
		return nil, fmt.Errorf("training data: %w", err)
	}
	if s.Parameters, err = parameters(m.Tensors(), cfg.Optimizer); err != nil {
		return nil, err
	}
	if len(s.Parameters) == 0 {
		return nil, At("/freeze", errors.New("training configuration: all tensors are frozen"))
	}
	return s, nil
}

// steps returns the number of steps, each of so many tokens, until the first
// of Steps and Tokens; 0 without such an end.
func (s Stop) steps(tokens int) int {
	n := 0
	if s.Tokens > 0 {
		n = 1 + (s.Tokens-1)/tokens
	}
	if s.Steps > 0 && (n == 0 || s.Steps < n) {
		n = s.Steps
	}
	return n
}

// Order yields the start of each window of the run in the order of use.
func (s *Start) Order(yield func(int) bool) {
	l, err := dataset.NewLoader(s.lm.corpus.Train, s.Config.SeqLen, dataset.Position{Seed: s.Config.Seed})
	if err != nil { // NewStart succeeded with the same
		panic(err)
	}
	for range s.Windows() {
		if !yield(l.Skip()) {
			return
		}
	}
}

// Windows returns the number of windows of the run.
func (s *Start) Windows() int { return s.Steps * s.Config.Accumulate * s.Config.BatchSize }

// Write writes the initial weights with the tokenizer as a checkpoint.
func (s *Start) Write(path string) error {
	state, err := s.lm.State()
	if err != nil {
		return err
	}
	header, err := json.Marshal(state.Header)
	if err != nil {
		return err
	}
	h := Header{Version: checkpointVersion, Kind: state.Kind, Task: header, Frozen: map[string]string{}}
	for _, t := range s.Model.Tensors() {
		if t.Grad != nil {
			h.Trainable = append(h.Trainable, t.Name)
			continue
		}
		h.Frozen[t.Name] = fmt.Sprintf("%x", tensorDigest(t))
	}
	if err := writeCheckpoint(path, h, append(sources(s.Model.Tensors()), state.Tensors...)); err != nil {
		return fmt.Errorf("saving checkpoint %s: %w", path, err)
	}
	return nil
}

// Refill writes to out the checkpoint at path with other weights, such as those
// that another program trained. The result holds the tokenizer of path and is
// not resumable.
func Refill(path, out string, weights []safetensors.Source) error {
	c, err := OpenLM(path)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, ok := c.file.Tensor(tokenizerName); ok {
		t, err := c.tensor(tokenizerName)
		if err != nil {
			return fmt.Errorf("checkpoint %s: %w", path, err)
		}
		weights = append(weights, safetensors.Source{Name: t.Name, DType: t.DType, Shape: t.Shape, Data: safetensors.Bytes(t.Data)})
	}
	h := c.Header
	h.Resumable = false
	if err := writeCheckpoint(out, h, weights); err != nil {
		return fmt.Errorf("saving checkpoint %s: %w", out, err)
	}
	return nil
}
