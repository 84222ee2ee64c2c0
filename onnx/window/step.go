package window

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/onnx"
)

// StepOptions configures the size of a step. The zero value is refused.
type StepOptions struct {
	Positions int // n, read at a time
	Window    int // W, positions of cached keys and values: the longest text
	Span      Span
}

// fits reports whether the sizes are within each other and a model's context.
func (o StepOptions) fits(context int) bool {
	return fits(o.Window, context) && o.Positions >= 1 && o.Positions <= o.Window
}

// fits reports whether so many positions can be written for a model's context.
func fits(positions, context int) bool {
	return positions >= 1 && positions <= min(maxPositions, context)
}

// Span is layers First to First+Count-1 of a model; the zero value is all.
type Span struct {
	First int `json:"first,omitempty"`
	Count int `json:"count,omitempty"`
}

// ParseSpan parses FIRST:END, the layers FIRST to END-1.
func ParseSpan(s string) (Span, error) {
	first, end, _ := strings.Cut(s, ":")
	from, err := strconv.Atoi(first)
	to, endErr := strconv.Atoi(end)
	if err != nil || endErr != nil || from < 0 || to <= from {
		return Span{}, errors.New("bad layers, want FIRST:END such as 1:3 for layers 1 and 2")
	}
	return Span{First: from, Count: to - from}, nil
}

// Of returns the span in a model of so many layers with its Count set, or an
// error if it is out of range.
func (s Span) Of(layers int) (Span, error) {
	if s == (Span{}) {
		s.Count = layers
	}
	return s, s.within(layers)
}

func (s Span) within(layers int) error {
	if s.First < 0 || s.Count < 1 || s.First > layers-s.Count {
		return fmt.Errorf("layers %d to %d out of range %d", s.First, s.End()-1, layers)
	}
	return nil
}

// End returns the layer after the last.
func (s Span) End() int { return s.First + s.Count }

// The inputs and outputs of a step, apart from [Sides].
const (
	Hidden = "hidden"     // in: [1, n, C], embeddings or the output of the layer before
	Behind = "hidden_out" // out, unless the last layer is included: [1, n, C], the input hidden of the next layer
	Logits = "logits"     // out: [1, n, V]
	States = "states"     // out: [1, n, C], after the last norm
)

// PastKey returns the name of the cached keys of layer i, [1, G, W, D].
func PastKey(i int) string { return fmt.Sprintf("past_key_%d", i) }

// PastValue returns the name of the cached values of layer i, [1, G, W, D].
func PastValue(i int) string { return fmt.Sprintf("past_value_%d", i) }

// Key returns the name of the new keys of layer i, [1, G, n, D].
func Key(i int) string { return fmt.Sprintf("key_%d", i) }

// Value returns the name of the new values of layer i, [1, G, n, D].
func Value(i int) string { return fmt.Sprintf("value_%d", i) }

// Step writes a model as ONNX with fixed shapes that reads n positions after at
// most W positions of cached keys and values: embeddings in, logits, keys and
// values out. The caller looks up embeddings ([EmbeddingScale]), computes the
// side inputs ([Places]), and maintains the cache. One small graph thus reads
// prompts, n positions at a time, and generates. For a span of layers it writes
// only those, from the output of the layer before to the input of the layer
// after: steps of consecutive spans form a complete step.
func Step(f *gguf.File, opt StepOptions) (*onnx.Model, error) {
	w, err := newStep(f, opt)
	if err != nil {
		return nil, err
	}
	span, err := opt.Span.Of(w.s.Layers)
	if err != nil {
		return nil, fmt.Errorf("writing a step: %w", err)
	}
	w.g.Inputs = []onnx.Value{onnx.TensorValue(Hidden, onnx.FLOAT, 1, w.t, w.s.Width)}
	for _, side := range Sides(w.s, span, w.window, w.t) {
		w.g.Inputs = append(w.g.Inputs, onnx.TensorValue(side.Name, onnx.FLOAT, side.Dims[0], side.Dims[1]))
	}
	return w.m, w.span(span)
}

// newStep returns the writer of a step of some size.
func newStep(f *gguf.File, opt StepOptions) (*writer, error) {
	s, err := read(f)
	if err != nil {
		return nil, err
	}
	if s.Style().Learned {
		return nil, fmt.Errorf("writing a step of %s: %w: learned positions", s.Arch, ErrUnsupported)
	}
	if !opt.fits(s.Context) {
		return nil, fmt.Errorf("writing a step: bad size: %d positions in a window of %d, limit %d", opt.Positions, opt.Window, min(maxPositions, s.Context))
	}
	return newWriter(f, s, opt.Positions, opt.Window, "step"), nil
}

// span writes the layers of a span and what follows the last.
func (w *writer) span(span Span) error {
	last := span.End() == w.s.Layers
	if last {
		w.g.Outputs = []onnx.Value{onnx.TensorValue(Logits, onnx.FLOAT, w.texts, w.t, w.s.Vocab), onnx.TensorValue(States, onnx.FLOAT, w.texts, w.t, w.s.Width)}
	} else {
		w.g.Outputs = []onnx.Value{onnx.TensorValue(Behind, onnx.FLOAT, 1, w.t, w.s.Width)}
	}
	x := Hidden
	for i := span.First; i < span.End(); i++ {
		var err error
		if x, err = w.layer(i, x, !last && i == span.End()-1); err != nil {
			return fmt.Errorf("writing layer %d: %w", i, err)
		}
	}
	if !last {
		return nil
	}
	return w.head(x)
}

// head writes the part after the layers.
func (w *writer) head(x string) error {
	normed, err := w.norm(arch.OutputNorm, x)
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(arch.Output, ".weight")
	if !w.holds(arch.Output) {
		name = strings.TrimSuffix(arch.TokenEmbedding, ".weight") // tied embedding
	}
	w.g.Add("Identity", []string{normed}, States)
	y, err := w.product(normed, matrix{as: "output", tensor: name, in: w.s.Width, rows: rows(0, w.s.Vocab), all: w.s.Vocab})
	if err != nil {
		return err
	}
	if d := w.s.LogitDivisor; d != 0 {
		y = w.g.Add("Mul", []string{y, w.number("logit_scale", 1/d)}, "output.scaled")
	}
	if limit := w.s.LogitCap; limit != 0 {
		y = w.capped(y, "logit", limit)
	}
	w.g.Add("Identity", []string{y}, Logits)
	return nil
}

// EmbeddingScale returns the factor of rows of the token embedding.
func EmbeddingScale(s arch.Shape) float32 {
	scale := cmp.Or(s.EmbeddingScale, 1)
	if s.Style().RootWidth {
		scale *= float32(math.Sqrt(float64(s.Width)))
	}
	return scale
}
