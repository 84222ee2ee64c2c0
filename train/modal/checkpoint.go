package modal

import (
	"errors"
	"fmt"
	"slices"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/net"
)

// kind is the kind of the checkpoints.
const kind = "perception"

// Header is what a checkpoint says about itself.
type Header struct {
	Recipe     Recipe            `json:"recipe"`
	Modalities []Built           `json:"modalities"`
	From       string            `json:"from"` // folder of the recipe, from the checkpoint's
	Vocabulary string            `json:"vocabulary"`
	Next       int               `json:"next"`           // examples drawn: the place in the sources
	Text       *dataset.Position `json:"text,omitempty"` // the place in the documents
	Held       *train.Evaluation `json:"held,omitempty"` // the last evaluation
}

// Checkpoint is an open checkpoint of a [Perception].
type Checkpoint struct {
	*train.Checkpoint
	Perception Header
}

// OpenCheckpoint maps the checkpoint at path and checks what it says about
// itself, which may come from anyone.
func OpenCheckpoint(path string) (*Checkpoint, error) {
	c, h, err := train.OpenAs(path, parseHeader)
	if err != nil {
		return nil, err
	}
	return &Checkpoint{c, h}, nil
}

func parseHeader(of train.Header) (Header, error) {
	var h Header
	if err := of.Decode(kind, &h); err != nil {
		return h, err
	}
	if err := h.Recipe.Validate(); err != nil {
		return h, fmt.Errorf("its recipe: %w", err)
	}
	if h.Next < 0 || len(h.Modalities) != len(h.Recipe.Modalities) {
		return h, errors.New("its header does not fit its recipe")
	}
	return h, nil
}

// Dir is the folder that the paths of the checkpoint's recipe are relative to.
func (c *Checkpoint) Dir() string { return c.Folder(c.Perception.From) }

// built is what the checkpoint has of a modality.
func (c *Checkpoint) built(m Medium) (Built, error) {
	i := slices.IndexFunc(c.Perception.Modalities, func(b Built) bool { return b.Modality == m })
	if i < 0 {
		return Built{}, fmt.Errorf("checkpoint %s: it has no modality %s", c.Path(), m)
	}
	return c.Perception.Modalities[i], nil
}

// strange says so where a stranger's encoder is another file than the one that
// the checkpoint's modality was trained with.
func (b Built) strange(e *stranger) error {
	if e == nil || b.ONNX == "" || b.ONNX == e.sum {
		return nil
	}
	return fmt.Errorf("it was trained with another encoder of %s: sha256 %s, this one's is %s", b.Modality, b.ONNX, e.sum)
}

// know says so where a stranger's encoder is another file than the checkpoint's.
func (c *Checkpoint) know(senses []*sense) error {
	for _, s := range senses {
		b, err := c.built(s.modality)
		if err != nil {
			return err
		}
		if err := b.strange(s.onnx); err != nil {
			return fmt.Errorf("checkpoint %s: %w", c.Path(), err)
		}
	}
	return nil
}

// Network is the encoder or the projector of a medium, as [EncoderPart] or
// [ProjectorPart] says, with its weights, and what the checkpoint says of it.
func (c *Checkpoint) Network(kind string, m Medium) (*net.Net[float32], Built, error) {
	p, b, err := c.part(kind, m)
	if err != nil {
		return nil, b, err
	}
	p.net.Pack(true)
	return p.net, b, nil
}

// Core is the recipe's core with the checkpoint's adapters beside it. dir is the
// folder that the recipe's paths are relative to; "" is where it lay.
func (c *Checkpoint) Core(dir string) (*llm.Model[float32], error) {
	r := c.Perception.Recipe
	if r.Core.LoRA == nil {
		return nil, fmt.Errorf("checkpoint %s: it is of stage %s, which has no adapters", c.Path(), r.Stage)
	}
	if dir == "" {
		dir = c.Dir()
	}
	r.Core.From = ""
	m, _, err := openCore(r, dir)
	if err != nil {
		return nil, err
	}
	for _, t := range m.Tensors() {
		if err := c.Read(t.Name, t.Data, t.Shape); err != nil {
			return nil, fmt.Errorf("checkpoint %s: %w", c.Path(), err)
		}
	}
	m.Stale()
	return m, nil
}

// part makes one of the checkpoint's networks again.
func (c *Checkpoint) part(kind string, m Medium) (*part, Built, error) {
	b, err := c.built(m)
	if err != nil {
		return nil, b, err
	}
	cfg := &b.Projector
	if kind == EncoderPart {
		if cfg = b.Encoder; cfg == nil {
			return nil, b, fmt.Errorf("checkpoint %s: its encoder of %s is an ONNX file: name that", c.Path(), m)
		}
	}
	p, err := newPart(kind, m, *cfg, 0)
	if err != nil {
		return nil, b, fmt.Errorf("checkpoint %s: %w", c.Path(), err)
	}
	for _, t := range p.net.Params().Tensors() {
		if err := c.Read(p.prefix+t.Name, t.Data, t.Shape); err != nil {
			return nil, b, fmt.Errorf("checkpoint %s: %w", c.Path(), err)
		}
	}
	return p, b, nil
}
