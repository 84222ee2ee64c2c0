package window

import (
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

// The inputs and outputs of a step.
const (
	Hidden = "hidden"     // in: [1, n, C], embeddings or the output of the layer before
	Cos    = "cos"        // in: [n, D/2], the rotation of each position
	Sin    = "sin"        // in: [n, D/2]
	Masks  = "mask"       // in: [n, W+n], 0 for a visible position
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
// values out. The caller looks up embeddings, computes rotations ([Rotation])
// and masks ([Mask]), and maintains the cache. One small graph thus reads
// prompts, n positions at a time, and generates. For a span of layers it writes
// only those, from the output of the layer before to the input of the layer
// after: steps of consecutive spans form a complete step.
func Step(f *gguf.File, opt StepOptions) (*onnx.Model, error) {
	s, err := read(f)
	if err != nil {
		return nil, err
	}
	if err := checkOutside(f, s); err != nil {
		return nil, fmt.Errorf("writing a step of %s: %w", s.Arch, err)
	}
	if !opt.fits(s.Context) {
		return nil, fmt.Errorf("writing a step: bad size: %d positions in a window of %d, limit %d", opt.Positions, opt.Window, min(maxPositions, s.Context))
	}
	span, err := opt.Span.Of(s.Layers)
	if err != nil {
		return nil, fmt.Errorf("writing a step: %w", err)
	}
	w := &writer{f: f, s: s, t: opt.Positions, window: opt.Window, m: onnx.New("step", opset)}
	w.g = &w.m.Graph
	w.g.Inputs = []onnx.Value{
		onnx.TensorValue(Hidden, onnx.FLOAT, 1, w.t, s.Width), onnx.TensorValue(Cos, onnx.FLOAT, w.t, s.HeadDim/2),
		onnx.TensorValue(Sin, onnx.FLOAT, w.t, s.HeadDim/2), onnx.TensorValue(Masks, onnx.FLOAT, w.t, w.window+w.t),
	}
	last := span.End() == s.Layers
	if last {
		w.g.Outputs = []onnx.Value{onnx.TensorValue(Logits, onnx.FLOAT, 1, w.t, s.Vocab), onnx.TensorValue(States, onnx.FLOAT, 1, w.t, s.Width)}
	} else {
		w.g.Outputs = []onnx.Value{onnx.TensorValue(Behind, onnx.FLOAT, 1, w.t, s.Width)}
	}
	w.constants()
	x := Hidden
	for i := span.First; i < span.End(); i++ {
		if x, err = w.layer(i, x, !last && i == span.End()-1); err != nil {
			return nil, fmt.Errorf("writing layer %d: %w", i, err)
		}
	}
	if !last {
		return w.m, nil
	}
	return w.m, w.head(x)
}

// checkOutside refuses unsupported features outside the layers.
func checkOutside(f *gguf.File, s arch.Shape) error {
	if s.EmbeddingScale != 0 || s.Style().RootWidth || s.LogitDivisor != 0 || s.LogitCap != 0 {
		return errors.New("unsupported scales of embeddings or logits")
	}
	if _, ok := f.Tensor(arch.RopeFreqs); ok {
		return errors.New("unsupported rope frequencies")
	}
	return parts(f, s, 0, s.Layers)
}

// head writes the part after the layers.
func (w *writer) head(x string) error {
	normed, err := w.norm("output_norm", x)
	if err != nil {
		return err
	}
	name := arch.Output
	if _, ok := w.f.Tensor(name); !ok {
		name = arch.TokenEmbedding // tied embedding
	}
	weight, err := w.weight(name, w.s.Width, nil)
	if err != nil {
		return err
	}
	w.g.Add("Identity", []string{normed}, States)
	w.g.Add("MatMul", []string{normed, weight}, Logits)
	return nil
}

// Rotation returns cosine and sine of the rotation angles of n positions from
// one on, n × D/2 numbers each.
func Rotation(s arch.Shape, from, n int) (cos, sin []float32) {
	d := s.HeadDim / 2
	cos, sin = make([]float32, n*d), make([]float32, n*d)
	for t := range n {
		for i := range d {
			sine, cosine := math.Sincos(float64(from+t) * math.Pow(float64(s.Rope.Base), -float64(i)/float64(d)))
			cos[t*d+i], sin[t*d+i] = float32(cosine), float32(sine)
		}
	}
	return cos, sin
}

// Mask returns the score offsets of n positions for window earlier positions,
// of which the first held are used, and for themselves: n × (window+n) numbers.
func Mask(window, n, held int) []float32 {
	out := make([]float32, n*(window+n))
	for t := range n {
		row := out[t*(window+n):][:window+n]
		for u := range row {
			if u >= held && u < window || u > window+t {
				row[u] = masked
			}
		}
	}
	return out
}
