package decode

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/net"
)

// kind is the kind of the checkpoints.
const kind = "decoding"

// Header is what a checkpoint says about itself.
type Header struct {
	Recipe     Recipe            `json:"recipe"`
	Net        net.Config        `json:"net"`
	Width      int               `json:"width"` // d_model of the core
	From       string            `json:"from"`  // folder of the recipe, from the checkpoint's
	Vocabulary string            `json:"vocabulary"`
	Next       int               `json:"next"`           // examples drawn: the place in the source
	Held       *train.Evaluation `json:"held,omitempty"` // the last evaluation
}

// Checkpoint is an open checkpoint of a [Decoding].
type Checkpoint struct {
	*train.Checkpoint
	Decoding Header
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

// Is reports whether a checkpoint is one of a decoder.
func Is(h train.Header) bool { return h.Kind == kind }

func parseHeader(of train.Header) (Header, error) {
	var h Header
	if err := of.Decode(kind, &h); err != nil {
		return h, err
	}
	if err := h.Recipe.Validate(); err != nil {
		return h, fmt.Errorf("its recipe: %w", err)
	}
	if h.Next < 0 || h.Width < 1 {
		return h, errors.New("its header counts below zero")
	}
	h.Recipe = h.Recipe.WithDefaults()
	return h, nil
}

// Dir is the folder that the paths of the checkpoint's recipe are relative to.
func (c *Checkpoint) Dir() string { return c.Folder(c.Decoding.From) }

// Network is the decoder with its weights, and the shape of what it makes.
func (c *Checkpoint) Network() (*net.Net[float32], net.Port, error) {
	var out net.Port
	n, err := net.New[float32](c.Decoding.Net)
	if err == nil {
		err = c.Decoding.Recipe.check(n, c.Decoding.Width)
	}
	if err == nil {
		out, err = made(n)
	}
	if err != nil {
		return nil, out, fmt.Errorf("checkpoint %s: %w", c.Path(), err)
	}
	for _, t := range n.Params().Tensors() {
		if err := c.Read(DecoderPart+"."+t.Name, t.Data, t.Shape); err != nil {
			return nil, out, fmt.Errorf("checkpoint %s: %w", c.Path(), err)
		}
	}
	n.Pack(true)
	return n, out, nil
}
