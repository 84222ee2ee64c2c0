package samples

import (
	"context"
	"errors"

	"mm-abi.org/mm/core/htp/blob"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
)

// errCaught ends a session once its function has been given what it takes.
var errCaught = errors.New("caught")

// catch is a function that keeps what it is given and computes nothing.
type catch struct{ in map[string]runtimes.Tensor }

// Run keeps the tensors.
func (c *catch) Run(_ context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	c.in = in
	return nil, errCaught
}

// Close has nothing to give back.
func (*catch) Close() error { return nil }

// media prepares a picture or a sound as the module says. Of a sound the first
// window is taken.
func (r reader) media(ctx context.Context, t blob.Tensor, path string) ([]float32, error) {
	if r.manifest == nil {
		return nil, errors.New("it is no .npy, .npz, .json or .raw, and --module names no manifest that prepares pictures and sounds")
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
