package decode

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/net"
)

// kind is the task kind of the checkpoints.
const kind = "decoding"

// Header is the task header of a checkpoint.
type Header struct {
	Recipe     Recipe            `json:"recipe"`
	Net        net.Config        `json:"net"`
	Width      int               `json:"width"` // d_model of the core
	From       string            `json:"from"`  // folder of the recipe, relative to the checkpoint's
	Vocabulary string            `json:"vocabulary"`
	Next       int               `json:"next"`           // examples drawn: the position in the source
	Held       *train.Evaluation `json:"held,omitempty"` // the last evaluation
}

// Checkpoint is an open checkpoint of a [Decoding].
type Checkpoint struct {
	*train.Checkpoint
	Decoding Header
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
	if h.Next < 0 || h.Width < 1 {
		return h, errors.New("negative count in header")
	}
	h.Recipe = h.Recipe.WithDefaults()
	return h, nil
}

// Dir returns the folder of the recipe's paths.
func (c *Checkpoint) Dir() string { return c.Folder(c.Decoding.From) }

// Network returns the decoder with its weights and the shape of its output.
func (c *Checkpoint) Network() (*net.Net[float32], net.Port, error) {
	var out net.Port
	n, err := net.New[float32](c.Decoding.Net)
	if err == nil {
		err = c.Decoding.Recipe.check(n, c.Decoding.Width)
	}
	if err == nil {
		out, err = outputShape(n)
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
