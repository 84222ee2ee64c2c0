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

// StepOptions say how much a step takes. The zero value is refused.
type StepOptions struct {
	Positions int // n, that a step reads at a time
	Window    int // W, of which keys and values are held: the longest text
	Span      Span
}

// Span is layers First to First+Count-1 of a model; the zero value is all.
type Span struct {
	First int `json:"first,omitempty"`
	Count int `json:"count,omitempty"`
}

// ParseSpan reads FIRST:END, the layers FIRST to END-1.
func ParseSpan(s string) (Span, error) {
	first, end, _ := strings.Cut(s, ":")
	from, err := strconv.Atoi(first)
	to, behind := strconv.Atoi(end)
	if err != nil || behind != nil || from < 0 || to <= from {
		return Span{}, errors.New("layers are FIRST:END, such as 1:3, which are 1 and 2")
	}
	return Span{First: from, Count: to - from}, nil
}

// Of is the span in a model of so many layers, its Count told; an error, if they
// are not there.
func (s Span) Of(layers int) (Span, error) {
	if s == (Span{}) {
		s.Count = layers
	}
	return s, s.within(layers)
}

func (s Span) within(layers int) error {
	if s.First < 0 || s.Count < 1 || s.First > layers-s.Count {
		return fmt.Errorf("layers %d to %d of %d", s.First, s.End()-1, layers)
	}
	return nil
}

// End is the layer behind the last.
func (s Span) End() int { return s.First + s.Count }

// The inputs and outputs of a step that are there once.
const (
	Hidden = "hidden"     // in: [1, n, C], the embeddings of what is read, or what the layer before gave
	Cos    = "cos"        // in: [n, D/2], the rotation of each position
	Sin    = "sin"        // in: [n, D/2]
	Masks  = "mask"       // in: [n, W+n], 0 where a position sees another
	Behind = "hidden_out" // out, where the last layer is not among them: [1, n, C], what the next one is given as hidden
	Logits = "logits"     // out: [1, n, V]
	States = "states"     // out: [1, n, C], behind the last norm
)

// PastKey names the keys of layer i that are held, [1, G, W, D].
func PastKey(i int) string { return fmt.Sprintf("past_key_%d", i) }

// PastValue names the values of layer i that are held, [1, G, W, D].
func PastValue(i int) string { return fmt.Sprintf("past_value_%d", i) }

// Key names the keys of layer i of what was read, [1, G, n, D].
func Key(i int) string { return fmt.Sprintf("key_%d", i) }

// Value names the values of layer i of what was read, [1, G, n, D].
func Value(i int) string { return fmt.Sprintf("value_%d", i) }

// Step writes a whole model as ONNX of fixed shapes that reads n positions
// behind at most W whose keys and values the caller holds: embeddings in,
// logits, keys and values out. The caller looks embeddings up, turns positions
// ([Rotation]), says who sees whom ([Mask]), and puts keys and values where they
// are held. So one small graph reads prompts, n at a time, and writes. Of a span
// of layers it writes those alone, from what the layer before them gave to what
// the layer behind them is given: steps of spans, one behind the other, are a
// whole one.
func Step(f *gguf.File, opt StepOptions) (*onnx.Model, error) {
	s, err := read(f)
	if err != nil {
		return nil, err
	}
	if err := whole(f, s); err != nil {
		return nil, fmt.Errorf("writing a step of %s: %w", s.Arch, err)
	}
	if most := min(maxPositions, s.Context); opt.Window < 1 || opt.Window > most || opt.Positions < 1 || opt.Positions > opt.Window {
		return nil, fmt.Errorf("writing a step: %d positions at a time of a window of %d; the model has %d", opt.Positions, opt.Window, most)
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

// whole refuses what lies around the layers and is not written.
func whole(f *gguf.File, s arch.Shape) error {
	if s.EmbeddingScale != 0 || s.Style().RootWidth || s.LogitDivisor != 0 || s.LogitCap != 0 {
		return errors.New("it has scales of embeddings or logits")
	}
	if _, ok := f.Tensor(arch.RopeFreqs); ok {
		return errors.New("it has frequencies of its own")
	}
	return parts(f, s, 0, s.Layers)
}

// head writes what is behind the layers.
func (w *writer) head(x string) error {
	normed, err := w.norm("output_norm", x)
	if err != nil {
		return err
	}
	name := arch.Output
	if _, ok := w.f.Tensor(name); !ok {
		name = arch.TokenEmbedding // both ways by the same matrix
	}
	weight, err := w.weight(name, w.s.Width, nil)
	if err != nil {
		return err
	}
	w.g.Add("Identity", []string{normed}, States)
	w.g.Add("MatMul", []string{normed, weight}, Logits)
	return nil
}

// Rotation gives cosine and sine of the angles by which n positions from one on
// turn, n × D/2 numbers each.
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

// Mask is what is added to the scores of n positions for window places before
// them, of which the first held are taken, and for themselves: n × (window+n)
// numbers.
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
