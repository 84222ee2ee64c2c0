package device

import (
	"context"
	"errors"

	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
)

// errCaught ends a session after its function has received its inputs.
var errCaught = errors.New("caught")

// catch is a function that keeps its inputs and computes nothing.
type catch struct{ in map[string]runtimes.Tensor }

// Run keeps the tensors.
func (c *catch) Run(_ context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	c.in = in
	return nil, errCaught
}

// Close does nothing.
func (*catch) Close() error { return nil }

// media preprocesses an image or audio file as the module specifies. Of audio it takes the
// first window.
func (r reader) media(ctx context.Context, t htp.Tensor, path string) ([]float32, error) {
	if r.manifest == nil {
		return nil, errors.New("unknown format: want .npy, .npz, .json or .raw, or --module for images and audio")
	}
	c := &catch{}
	s, err := modality.New(c, r.manifest, modality.Options{})
	if err != nil {
		return nil, err
	}
	if _, err := s.Run(ctx, map[string]modality.Input{t.Name: {File: path}}); !errors.Is(err, errCaught) {
		return nil, err
	}
	v, err := modality.Numbers(c.in[t.Name])
	if err != nil {
		return nil, err
	}
	return fitted(t, v)
}
