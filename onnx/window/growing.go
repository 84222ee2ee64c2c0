package window

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/onnx"
)

// GrowingOptions are the sizes of a model whose caches grow. The zero value is
// refused.
type GrowingOptions struct {
	Texts     int // N, read at a time
	Positions int // n of each
	Past      int // W, positions in the caches
}

// Growing writes a complete model as ONNX for runtimes that keep the caches and
// extend them. Inputs are [Tokens], int64 [N, n], the [Sides] with two dimensions
// before their own, rotations [N, 1, n, R/2] and masks [N, 1, n, W+n], and caches
// [PastKey], [PastValue], [N, G, W, D]. Outputs are [Logits], [N, n, V], and all
// keys and values, [Key] and [Value], [N, G, W+n, D].
//
// No constant depends on the sizes, so models of two sizes differ in shapes alone.
func Growing(f *gguf.File, opt GrowingOptions) (*onnx.Model, error) {
	if opt.Texts < 1 || opt.Past < 1 {
		return nil, fmt.Errorf("writing a growing model: bad size: %d texts with %d positions before", opt.Texts, opt.Past)
	}
	w, err := newStep(f, StepOptions{Positions: opt.Positions, Window: max(opt.Past, opt.Positions)})
	if err != nil {
		return nil, err
	}
	w.texts, w.window, w.grows = opt.Texts, opt.Past, true
	w.g.Inputs = []onnx.Value{onnx.TensorValue(Tokens, onnx.INT64, w.texts, w.t)}
	if err := w.embed(); err != nil {
		return nil, err
	}
	for _, side := range GrowingSides(w.s) {
		columns := w.s.Rope.Dims / 2
		if side == Masks || side == LocalMasks {
			columns = w.window + w.t
		}
		w.g.Inputs = append(w.g.Inputs, onnx.TensorValue(side, onnx.FLOAT, w.texts, 1, w.t, columns))
	}
	if err := w.span(Span{Count: w.s.Layers}); err != nil {
		return nil, err
	}
	w.g.Outputs = append(w.g.Outputs[:1], w.g.Outputs[2:]...) // without the states
	return w.m, nil
}

// GrowingSides lists the side inputs of a growing model, in a fixed order.
func GrowingSides(s arch.Shape) (out []string) {
	for _, side := range Sides(s, Span{Count: s.Layers}, math.MaxInt, 0) {
		out = append(out, side.Name)
	}
	return out
}

// reach returns the number of positions that are visible at most.
func (w *writer) reach() int {
	if w.grows {
		return math.MaxInt
	}
	return w.window + w.t
}
