package step

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/window"
	"mm-abi.org/mm/runtimes"
)

// Opener opens a function of a model in memory.
type Opener func(ctx context.Context, m *onnx.Model, l runtimes.Limits) (runtimes.Function, error)

// Around returns a pass of all layers from middle, a function of a span of them. The
// layers before and after the span run in 32-bit floats as functions that open creates
// from the weights of f. If the span is all layers, the pass is middle. The pass owns
// middle, unless there is an error.
func Around(ctx context.Context, f *gguf.File, r Record, middle runtimes.Function, open Opener) (_ runtimes.Function, err error) {
	s, err := arch.Read(f)
	if err != nil {
		return nil, err
	}
	span, err := r.Span.Of(s.Layers)
	if err != nil {
		return nil, err
	}
	var c chain
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close(middle))
		}
	}()
	for _, part := range []window.Span{{Count: span.First}, span, {First: span.End(), Count: s.Layers - span.End()}} {
		switch {
		case part.Count == 0:
			continue
		case part == span:
			c = append(c, link{span, middle, window.Sides(s, span, r.Window, r.Positions)})
			continue
		}
		m, err := window.Step(f, window.StepOptions{Positions: r.Positions, Window: r.Window, Span: part})
		if err != nil {
			return nil, err
		}
		around, err := open(ctx, m, runtimes.Limits{})
		if err != nil {
			return nil, fmt.Errorf("layers %d to %d: %w", part.First, part.End()-1, err)
		}
		c = append(c, link{part, around, window.Sides(s, part, r.Window, r.Positions)})
	}
	if len(c) == 1 {
		return middle, nil
	}
	return c, nil
}

// link is a function of some layers.
type link struct {
	window.Span
	runtimes.Function
	sides []window.Side
}

// chain is a pass whose layers are computed by several functions in sequence.
type chain []link

// Run computes all layers.
func (c chain) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	all := map[string]runtimes.Tensor{}
	hidden := in[window.Hidden]
	for _, l := range c {
		given := map[string]runtimes.Tensor{window.Hidden: hidden}
		for _, side := range l.sides {
			given[side.Name] = in[side.Name]
		}
		for i := l.First; i < l.End(); i++ {
			given[window.PastKey(i)], given[window.PastValue(i)] = in[window.PastKey(i)], in[window.PastValue(i)]
		}
		out, err := l.Function.Run(ctx, given)
		if err != nil {
			return nil, fmt.Errorf("layers %d to %d: %w", l.First, l.End()-1, err)
		}
		hidden = out[window.Behind]
		delete(out, window.Behind)
		maps.Copy(all, out)
	}
	return all, nil
}

// Close closes all functions.
func (c chain) Close() error { return c.close(nil) }

// close closes the functions except one.
func (c chain) close(but runtimes.Function) error {
	var errs []error
	for _, l := range c {
		if l.Function != but {
			errs = append(errs, l.Function.Close())
		}
	}
	return errors.Join(errs...)
}
