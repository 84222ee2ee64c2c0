package train

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/llm"
)

// tokenizerName is what the tokenizer is called in a checkpoint.
const tokenizerName = "tokenizer.gguf"

// LMHeader is what the checkpoint of a language model says about itself.
type LMHeader struct {
	Config    Config           `json:"config"`
	Model     llm.Config       `json:"model"` // as trained: a tied head may have been untied
	Position  dataset.Position `json:"position"`
	From      string           `json:"from"`       // folder of the configuration, from the checkpoint's
	Text      string           `json:"text"`       // digest of the documents
	Tokenizer string           `json:"vocabulary"` // digest of the tokenizer
}

// LMCheckpoint is an open checkpoint of a language model.
type LMCheckpoint struct {
	*Checkpoint
	LM LMHeader
}

// OpenLM maps the checkpoint of a language model at path and checks what it says
// about itself.
func OpenLM(path string) (*LMCheckpoint, error) {
	c, h, err := OpenAs(path, parseLM)
	if err != nil {
		return nil, err
	}
	return &LMCheckpoint{c, h}, nil
}

// parseLM reads and checks a header, which may come from anyone.
func parseLM(of Header) (LMHeader, error) {
	var h LMHeader
	if err := of.Decode(lmKind, &h); err != nil {
		return h, err
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

// Dir is the folder that the paths of the checkpoint's configuration are relative
// to: where it lay, seen from the checkpoint's own folder.
func (c *LMCheckpoint) Dir() string { return c.Folder(c.LM.From) }

// Model builds the checkpoint's model, adapters beside it where it has any,
// with nothing frozen. Every tensor must be there in its shape.
func (c *LMCheckpoint) Model() (*llm.Model[float32], error) {
	// The file must hold what its header asks for before room is made for it.
	have := 0
	for _, t := range c.file.Tensors {
		have += len(t.Data) / 4
	}
	if n := c.LM.Model.Parameters(); n > have {
		return nil, fmt.Errorf("checkpoint %s: a model of its shape has %d weights, the file at most %d", c.path, n, have)
	}
	m, err := llm.New[float32](c.LM.Model)
	if err != nil {
		return nil, err
	}
	if lora := c.LM.Config.LoRA; lora != nil {
		if lora.Rank > have/m.Config.Dim { // an adapter has rank·dim weights at least
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

// Tokenizer is the tokenizer kept beside the weights; nil if there is none.
func (c *LMCheckpoint) Tokenizer() (*tokenizer.Tokenizer, error) {
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
func (c *LMCheckpoint) Of(corpus *Corpus) bool {
	h := c.LM
	return h.Text == corpus.Text && h.Tokenizer == corpus.Vocabulary && h.Config.Data.Special == corpus.special
}
