package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"mm-abi.org/mm/core/dataset"
	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/llm"
	"mm-abi.org/mm/core/optim"
	"mm-abi.org/mm/core/safetensors"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/fsx"
)

// The files in Options.Dir, all safetensors.
const (
	LastFile = "last.safetensors" // weights and all that Resume needs
	BestFile = "best.safetensors" // weights at the lowest held-out loss
)

// The names in a checkpoint beside the weights' own.
const (
	metaKey         = "mm.checkpoint"
	optimizerPrefix = "optimizer."
	tokenizerName   = "tokenizer.gguf"
)

// checkpointVersion is the layout of header.
const checkpointVersion = 1

// Header is what a checkpoint says about itself, as JSON in its metadata.
type Header struct {
	Version   int               `json:"version"`
	Config    Config            `json:"config"`
	Model     llm.Config        `json:"model"` // as trained: a tied head may have been untied
	Step      int               `json:"step"`
	Tokens    int               `json:"tokens"`
	Position  dataset.Position  `json:"position"`
	Resumable bool              `json:"resumable"` // the optimizer's state is there
	OptStep   int               `json:"optimizer_step"`
	OptSum    float64           `json:"optimizer_sum"`
	Best      float64           `json:"best"`
	Since     Unreported        `json:"since"`
	Seconds   float64           `json:"seconds"`
	CPU       float64           `json:"cpu_seconds"`
	Text      string            `json:"text"`       // digest of the documents
	Tokenizer string            `json:"vocabulary"` // digest of the tokenizer
	Trainable []string          `json:"trainable"`
	Frozen    map[string]string `json:"frozen,omitempty"` // SHA-256 of every frozen tensor
}

// Unreported is the steps since the last report, so that a resumed run reports
// the same figures as one that went on.
type Unreported struct {
	Steps  int     `json:"steps"`
	Tokens int     `json:"tokens"`
	Loss   float64 `json:"loss"` // sum over the steps
	Busy   float64 `json:"busy"` // seconds
}

// write puts a checkpoint at path, durably and at once.
func (t *Trainer) write(path string, resumable bool) error {
	state := t.mover.State()
	h := Header{Version: checkpointVersion, Config: t.cfg, Model: t.model.Config, Step: t.step, Tokens: t.tokens,
		Position: t.loader.Position(), Resumable: resumable, Since: t.since.Unreported, OptStep: state.Step, OptSum: state.Sum, Best: t.best,
		Seconds: t.watch.seconds(), CPU: t.watch.cpuSeconds(), Text: t.corpus.Text, Tokenizer: t.corpus.Vocabulary, Trainable: t.trainable(), Frozen: t.seal.digests()}
	var tensors []safetensors.Source
	for _, w := range t.model.Tensors() {
		tensors = append(tensors, source(w.Name, w.Data, w.Shape...))
	}
	if resumable {
		for _, s := range state.Slots {
			tensors = append(tensors, source(optimizerPrefix+s.Name, s.Data, len(s.Data)))
		}
	}
	if t.corpus.Tokenizer != nil {
		var b bytes.Buffer
		if _, err := gguf.Write(&b, t.corpus.Tokenizer.KVs(), nil); err != nil {
			return fmt.Errorf("saving the tokenizer: %w", err)
		}
		tensors = append(tensors, safetensors.Source{Name: tokenizerName, DType: safetensors.U8, Shape: []int{b.Len()}, Data: safetensors.Bytes(b.Bytes())})
	}
	meta, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("saving a checkpoint: %w", err)
	}
	err = fsx.Replace(path, 0o644, func(w io.Writer) error {
		_, err := safetensors.Write(w, map[string]string{"format": "pt", metaKey: string(meta)}, tensors)
		return err
	})
	if err != nil {
		return fmt.Errorf("saving checkpoint %s: %w", path, err)
	}
	return nil
}

func source(name string, data []float32, shape ...int) safetensors.Source {
	return safetensors.Source{Name: name, DType: safetensors.F32, Shape: shape, Data: safetensors.Bytes(floatBytes(data))}
}

// Checkpoint is an open checkpoint file.
type Checkpoint struct {
	Header Header
	path   string
	file   *safetensors.File
}

// Open maps the checkpoint at path and checks what it says about itself.
func Open(path string) (*Checkpoint, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening checkpoint %s: %w", path, err)
	}
	c := &Checkpoint{path: path, file: f}
	if c.Header, err = parseHeader(f.Metadata[metaKey]); err != nil {
		f.Close()
		return nil, fmt.Errorf("opening checkpoint %s: %w", path, err)
	}
	return c, nil
}

// parseHeader reads and checks a header, which may come from anyone.
func parseHeader(s string) (Header, error) {
	var h Header
	if s == "" {
		return h, errors.New("no " + metaKey + " in its metadata: not a checkpoint of mm")
	}
	d := json.NewDecoder(strings.NewReader(s))
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return h, fmt.Errorf("its header: %w", err)
	}
	if h.Version != checkpointVersion {
		return h, fmt.Errorf("its layout is version %d, this program reads %d", h.Version, checkpointVersion)
	}
	if h.Step < 0 || h.Tokens < 0 || h.OptStep < 0 || !(h.Seconds >= 0) || !(h.CPU >= 0) || !(h.Best >= 0) || h.Since.Steps < 0 || h.Since.Steps > h.Step {
		return h, errors.New("its header counts below zero")
	}
	if err := errors.Join(h.Config.Validate(), h.Model.Validate()); err != nil {
		return h, fmt.Errorf("its configuration: %w", err)
	}
	want := h.Config.WithDefaults().Model
	if want.Tied && !h.Model.Tied {
		want.Tied = false
	}
	if h.Model != want {
		return h, errors.New("its model is not that of its configuration")
	}
	return h, nil
}

// Close unmaps the file.
func (c *Checkpoint) Close() error { return c.file.Close() }

// Model builds the checkpoint's model, adapters beside it where it has any,
// with nothing frozen. Every tensor must be there in its shape.
func (c *Checkpoint) Model() (*llm.Model[float32], error) {
	// The file must hold what its header asks for before room is made for it.
	have := 0
	for _, t := range c.file.Tensors {
		have += len(t.Data) / 4
	}
	if n := c.Header.Model.Parameters(); n > have {
		return nil, fmt.Errorf("checkpoint %s: a model of its shape has %d weights, the file at most %d", c.path, n, have)
	}
	m, err := llm.New[float32](c.Header.Model)
	if err != nil {
		return nil, err
	}
	if lora := c.Header.Config.LoRA; lora != nil {
		if lora.Rank > have/m.Config.Dim { // an adapter has rank·dim weights at least
			return nil, fmt.Errorf("checkpoint %s: adapters of rank %d in a file of at most %d weights", c.path, lora.Rank, have)
		}
		if err := m.Adapt(*c.Header.Config.LoRA, 0); err != nil {
			return nil, err
		}
	}
	for _, w := range m.Tensors() {
		if err := c.read(w.Name, w.Data, w.Shape); err != nil {
			return nil, fmt.Errorf("checkpoint %s: %w", c.path, err)
		}
	}
	m.Stale()
	return m, nil
}

// read copies one float32 tensor, which must have the given shape.
func (c *Checkpoint) read(name string, dst []float32, shape []int) error {
	t, ok := c.file.Tensor(name)
	if !ok {
		return fmt.Errorf("tensor %s is missing", name)
	}
	if t.DType != safetensors.F32 || !slices.Equal(t.Shape, shape) {
		return fmt.Errorf("tensor %s is %s %v, want F32 %v", name, t.DType, t.Shape, shape)
	}
	setFloats(dst, t.Data)
	return nil
}

// Tokenizer is the tokenizer kept beside the weights; nil if there is none.
func (c *Checkpoint) Tokenizer() (*tokenizer.Tokenizer, error) {
	t, ok := c.file.Tensor(tokenizerName)
	if !ok {
		return nil, nil
	}
	f, err := gguf.Parse(t.Data)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: its tokenizer: %w", c.path, err)
	}
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: its tokenizer: %w", c.path, err)
	}
	return tok, nil
}

// Of reports whether the checkpoint was trained on the corpus: the same text
// and the same tokens.
func (c *Checkpoint) Of(corpus *Corpus) bool {
	h := c.Header
	return h.Text == corpus.Text && h.Tokenizer == corpus.Vocabulary && h.Config.Data.Special == corpus.special
}

// Resume builds the run that left the checkpoint at path, to go on from there
// as if it had never stopped. The corpus must be the one it was trained on.
func Resume(path string, corpus *Corpus, opt Options) (*Trainer, error) {
	c, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	h := c.Header
	if !h.Resumable {
		return nil, fmt.Errorf("resuming %s: it holds weights alone; resume from %s", path, LastFile)
	}
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
	t, err := build(cfg, m, corpus, opt, h.Position)
	if err != nil {
		return nil, err
	}
	if err := t.restore(c, h); err != nil {
		t.Close()
		return nil, fmt.Errorf("resuming %s: %w", path, err)
	}
	return t, nil
}

// trainable lists the tensors that train.
func (t *Trainer) trainable() []string {
	var names []string
	for _, w := range t.model.Tensors() {
		if w.Grad != nil {
			names = append(names, w.Name)
		}
	}
	return names
}

// restore takes over everything but the weights.
func (t *Trainer) restore(c *Checkpoint, h Header) error {
	if !slices.Equal(t.trainable(), h.Trainable) {
		return errors.New("the tensors that trained are not those that the configuration trains")
	}
	for name, digest := range t.seal.digests() {
		if h.Frozen[name] != digest {
			return fmt.Errorf("frozen tensor %s is not the one that was sealed", name)
		}
	}
	own := t.mover.State()
	saved := optim.State{Step: h.OptStep, Sum: h.OptSum}
	for _, s := range own.Slots {
		data := make([]float32, len(s.Data))
		if err := c.read(optimizerPrefix+s.Name, data, []int{len(data)}); err != nil {
			return err
		}
		saved.Slots = append(saved.Slots, optim.Slot{Name: s.Name, Data: data})
	}
	if err := t.mover.Restore(saved); err != nil {
		return err
	}
	t.model.Stale()
	t.step, t.tokens, t.best = h.Step, h.Tokens, h.Best
	t.since.Unreported = h.Since
	t.watch = startWatch(h.Seconds, h.CPU, t.opt.CPU)
	return nil
}
