package train

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/llm"
)

// tokenizerName is the name of the tokenizer in a checkpoint.
const tokenizerName = "tokenizer.gguf"

// LMHeader is the header of a language model's checkpoint.
type LMHeader struct {
	Config    Config           `json:"config"`
	Model     llm.Config       `json:"model"` // as trained: a tied head may have been untied
	Position  dataset.Position `json:"position"`
	From      string           `json:"from"`       // folder of the configuration, relative to the checkpoint's
	Text      string           `json:"text"`       // digest of the documents
	Tokenizer string           `json:"vocabulary"` // digest of the tokenizer
	Lineage   []Lineage        `json:"lineage,omitempty"`
}

// LMCheckpoint is an open checkpoint of a language model.
type LMCheckpoint struct {
	*Checkpoint
	LM LMHeader
}

// OpenLM maps the checkpoint of a language model at path and validates its
// header.
func OpenLM(path string) (*LMCheckpoint, error) {
	c, h, err := OpenAs(path, parseLM)
	if err != nil {
		return nil, err
	}
	return &LMCheckpoint{c, h}, nil
}

// parseLM parses and validates an untrusted header.
func parseLM(of Header) (LMHeader, error) {
	var h LMHeader
	if err := of.Decode(LMKind, &h); err != nil {
		return h, err
	}
	if err := errors.Join(h.Config.Validate(), h.Model.Validate()); err != nil {
		return h, fmt.Errorf("configuration: %w", err)
	}
	want := h.Config.WithDefaults().Model
	if want.Tied && !h.Model.Tied {
		want.Tied = false
	}
	if h.Model != want {
		return h, errors.New("model does not match the configuration")
	}
	return h, nil
}

// Dir returns the folder to which the paths of the configuration are relative.
func (c *LMCheckpoint) Dir() string { return c.Folder(c.LM.From) }

// Model builds the checkpoint's model, with its adapters, if any, and nothing
// frozen. Every tensor must exist with its shape.
func (c *LMCheckpoint) Model() (*llm.Model[float32], error) {
	if lora := c.LM.Config.LoRA; lora != nil && lora.Quantized {
		return c.adapted()
	}
	// Check the size of the file before allocating the model.
	have := 0
	for _, t := range c.file.Tensors {
		have += len(t.Data) / 4
	}
	if n := c.LM.Model.Parameters(); n > have {
		return nil, fmt.Errorf("checkpoint %s: want %d weights, file has at most %d", c.path, n, have)
	}
	m, err := llm.New[float32](c.LM.Model)
	if err != nil {
		return nil, err
	}
	if lora := c.LM.Config.LoRA; lora != nil {
		if lora.Rank > have/m.Config.Dim { // an adapter has at least rank·dim weights
			return nil, fmt.Errorf("checkpoint %s: adapters of rank %d in a file of at most %d weights", c.path, lora.Rank, have)
		}
		if err := m.Adapt(*c.LM.Config.LoRA, 0); err != nil {
			return nil, err
		}
	}
	for _, w := range m.Tensors() {
		if err := c.Read(w.Name, w.Data, w.Shape); err != nil {
			return nil, fmt.Errorf("checkpoint %s: %w", c.path, err)
		}
	}
	m.Stale()
	return m, nil
}

// adapted builds the model of a checkpoint without its quantized base, which is
// read from its file and must be the one the adapters were trained on.
func (c *LMCheckpoint) adapted() (*llm.Model[float32], error) {
	m, _, err := OpenQuantized(Resolve(c.Dir(), c.LM.Config.Base))
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", c.path, err)
	}
	if m.Config != c.LM.Model {
		return nil, fmt.Errorf("checkpoint %s: shape mismatch of base %s: got %+v, want %+v", c.path, c.LM.Config.Base, m.Config, c.LM.Model)
	}
	if err := m.Adapt(*c.LM.Config.LoRA, 0); err != nil {
		return nil, err
	}
	if err := c.ReadInto(m.Tensors()); err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", c.path, err)
	}
	m.Stale()
	return m, nil
}

// Tokenizer returns the tokenizer in the checkpoint, nil without one.
func (c *LMCheckpoint) Tokenizer() (*tokenizer.Tokenizer, error) {
	if _, ok := c.file.Tensor(tokenizerName); !ok {
		return nil, nil
	}
	t, err := c.tensor(tokenizerName)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", c.path, err)
	}
	f, err := gguf.Parse(t.Data)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: tokenizer: %w", c.path, err)
	}
	tok, err := tokenizer.FromGGUF(f)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: tokenizer: %w", c.path, err)
	}
	return tok, nil
}

// Of reports whether the checkpoint was trained on the corpus: the same text
// and the same tokens.
func (c *LMCheckpoint) Of(corpus *Corpus) bool {
	h := c.LM
	return h.Text == corpus.Text && h.Tokenizer == corpus.Vocabulary && h.Config.Data.Special == corpus.special
}
