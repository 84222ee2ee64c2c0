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

// kind is the task kind of the checkpoints.
const kind = "perception"

// Header is the task header of a checkpoint.
type Header struct {
	Recipe     Recipe            `json:"recipe"`
	Modalities []Built           `json:"modalities"`
	From       string            `json:"from"` // folder of the recipe, relative to the checkpoint's
	Vocabulary string            `json:"vocabulary"`
	Next       int               `json:"next"`           // examples drawn: the position in the sources
	Text       *dataset.Position `json:"text,omitempty"` // the position in the documents
	Held       *train.Evaluation `json:"held,omitempty"` // the last evaluation
}

// Checkpoint is an open checkpoint of a [Perception].
type Checkpoint struct {
	*train.Checkpoint
	Perception Header
}

// OpenCheckpoint maps the checkpoint at path and validates its untrusted
// header.
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
		return h, fmt.Errorf("recipe: %w", err)
	}
	if h.Next < 0 || len(h.Modalities) != len(h.Recipe.Modalities) {
		return h, errors.New("header does not match the recipe")
	}
	return h, nil
}

// Dir returns the folder of the recipe's paths.
func (c *Checkpoint) Dir() string { return c.Folder(c.Perception.From) }

// built returns the checkpoint's networks of a modality.
func (c *Checkpoint) built(m Medium) (Built, error) {
	i := slices.IndexFunc(c.Perception.Modalities, func(b Built) bool { return b.Modality == m })
	if i < 0 {
		return Built{}, fmt.Errorf("checkpoint %s: missing modality %s", c.Path(), m)
	}
	return c.Perception.Modalities[i], nil
}

// checkEncoder returns an error if e is not the ONNX encoder with which the
// modality was trained.
func (b Built) checkEncoder(e *external) error {
	if e == nil || b.ONNX == "" || b.ONNX == e.sum {
		return nil
	}
	return fmt.Errorf("trained with another encoder of %s: sha256 %s, got %s", b.Modality, b.ONNX, e.sum)
}

// checkEncoders returns an error if an ONNX encoder is not the checkpoint's.
func (c *Checkpoint) checkEncoders(senses []*sense) error {
	for _, s := range senses {
		b, err := c.built(s.modality)
		if err != nil {
			return err
		}
		if err := b.checkEncoder(s.onnx); err != nil {
			return fmt.Errorf("checkpoint %s: %w", c.Path(), err)
		}
	}
	return nil
}

// Network returns the encoder or the projector of a medium ([EncoderPart],
// [ProjectorPart]) with its weights, and the description of the modality.
func (c *Checkpoint) Network(kind string, m Medium) (*net.Net[float32], Built, error) {
	p, b, err := c.part(kind, m)
	if err != nil {
		return nil, b, err
	}
	p.net.Pack(true)
	return p.net, b, nil
}

// Core returns the recipe's core with the checkpoint's adapters. dir is the
// folder of the recipe's paths, by default as recorded.
func (c *Checkpoint) Core(dir string) (*llm.Model[float32], error) {
	r := c.Perception.Recipe
	if r.Core.LoRA == nil {
		return nil, fmt.Errorf("checkpoint %s: stage %s has no adapters", c.Path(), r.Stage)
	}
	if dir == "" {
		dir = c.Dir()
	}
	r.Core.From = ""
	m, _, err := openCore(r, dir)
	if err != nil {
		return nil, err
	}
	if err := c.ReadInto(m.Tensors()); err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", c.Path(), err)
	}
	m.Stale()
	return m, nil
}

// part reads one of the checkpoint's networks.
func (c *Checkpoint) part(kind string, m Medium) (*part, Built, error) {
	b, err := c.built(m)
	if err != nil {
		return nil, b, err
	}
	cfg := &b.Projector
	if kind == EncoderPart {
		if cfg = b.Encoder; cfg == nil {
			return nil, b, fmt.Errorf("checkpoint %s: encoder of %s is an ONNX file, which must be named", c.Path(), m)
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
