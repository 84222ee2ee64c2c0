// Package window writes layers of a language model in GGUF as an ONNX model of
// a fixed window, for compilers of accelerators, which support neither GGUF nor
// growing lengths.
//
// [Layers] returns a model of some layers, from the residual stream before the
// first to that after the last, hidden [1, T, C] → hidden_out [1, T, C], for
// positions 0 to T-1 with causal attention. Weights are float32, as exact as in
// the file. [Step] returns a pass over cached keys and values, [Language] a
// pass from tokens to logits for programs without mm.
//
// It supports the architectures of core/gguf/arch, whose [arch.Style] describes
// the layers, except those with experts. Values stay within the range of 16-bit
// floats, also those that models with large activations would exceed: norms
// divide by the largest number of a row before they square, and gates are
// multiplied at a sixteenth of their size.
package window

import (
	"errors"
	"fmt"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/onnx"
)

// Options selects the part to write. The zero value is refused.
type Options struct {
	First, Count int // layers First to First+Count-1
	Positions    int // T
	// Norm includes the norm after the last layer of the model; the result is
	// then output_norm.
	Norm bool
}

const (
	opset        = 17
	maxPositions = 1 << 14
	// Masked is the score offset of an invisible position: far below all
	// scores, and finite in 16 bits.
	Masked = -10000
)

// ErrUnsupported reports a feature of a model that cannot be written.
var ErrUnsupported = errors.New("unsupported")

// Layers writes layers of a model as ONNX.
func Layers(f *gguf.File, opt Options) (*onnx.Model, error) {
	s, err := read(f)
	if err != nil {
		return nil, err
	}
	span := Span{First: opt.First, Count: opt.Count}
	if err := span.within(s.Layers); err != nil {
		return nil, fmt.Errorf("writing a window: %w", err)
	}
	if opt.Norm && span.End() != s.Layers {
		return nil, fmt.Errorf("writing a window: the norm follows layer %d, not %d", s.Layers-1, span.End()-1)
	}
	if !fits(opt.Positions, s.Context) {
		return nil, fmt.Errorf("writing a window: bad size: got %d positions, limit %d", opt.Positions, s.Context)
	}
	p, err := NewPlaces(f, opt.Positions)
	if err != nil {
		return nil, fmt.Errorf("writing a window: %w", err)
	}
	w := newWriter(f, s, opt.Positions, 0, "layers")
	w.g.Inputs = []onnx.Value{onnx.TensorValue(Hidden, onnx.FLOAT, 1, w.t, s.Width)}
	for _, side := range Sides(s, span, 0, w.t) {
		w.floats(side.Name, p.side(side.Name, 0, 0, w.t), side.Dims...)
	}
	x := Hidden
	for i := span.First; i < span.End(); i++ {
		if x, err = w.layer(i, x, i == span.End()-1 && !opt.Norm); err != nil {
			return nil, fmt.Errorf("writing layer %d: %w", i, err)
		}
	}
	if opt.Norm {
		if x, err = w.norm(arch.OutputNorm, x); err != nil {
			return nil, err
		}
	}
	w.g.Outputs = []onnx.Value{onnx.TensorValue(x, onnx.FLOAT, 1, w.t, s.Width)}
	return w.m, nil
}

// read reads the shape of a model whose layers are written.
func read(f *gguf.File) (arch.Shape, error) {
	s, err := arch.Read(f)
	if err != nil {
		return s, fmt.Errorf("writing a window: %w", err)
	}
	if s.Mixer != nil {
		return s, fmt.Errorf("writing a window of %s: %w: layers with a state", s.Arch, ErrUnsupported)
	}
	if s.Latent != nil {
		return s, fmt.Errorf("writing a window of %s: %w: latent attention", s.Arch, ErrUnsupported)
	}
	if s.Altup != nil {
		return s, fmt.Errorf("writing a window of %s: %w: layers of %d residual streams", s.Arch, ErrUnsupported, s.Altup.Streams)
	}
	if s.Experts > 0 {
		return s, fmt.Errorf("writing a window of %s: %w: layers that choose among %d experts", s.Arch, ErrUnsupported, s.Experts)
	}
	if s.Cooling != 0 {
		return s, fmt.Errorf("writing a window of %s: %w: queries that grow with their position", s.Arch, ErrUnsupported)
	}
	if y := s.Style(); y.ALiBi || y.Unscaled {
		return s, fmt.Errorf("writing a window of %s: %w: scores with a bias of their distance, or without a scale", s.Arch, ErrUnsupported)
	}
	switch act := s.Act(); act {
	case arch.SiLU, arch.GELU, arch.GELUTanh, arch.ReLU: // see activated
	case arch.ReLU2:
		return s, fmt.Errorf("writing a window of %s: %w: activations that are squares, which exceed 16 bits", s.Arch, ErrUnsupported)
	default:
		return s, fmt.Errorf("writing a window of %s: %w: activation %s", s.Arch, ErrUnsupported, act)
	}
	if _, two := f.Tensor(arch.Block(0) + "attn_norm_2.weight"); two {
		return s, fmt.Errorf("writing a window of %s: %w: two norms of one residual", s.Arch, ErrUnsupported)
	}
	if err := s.CheckTensors(f.Names()); err != nil {
		return s, fmt.Errorf("writing a window: %w", err)
	}
	return s, nil
}
