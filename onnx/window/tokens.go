package window

import (
	"fmt"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/onnx"
)

// The inputs of a pass over tokens, apart from the caches.
const (
	Tokens   = "tokens"   // int64 [1, n]
	Position = "position" // int64 [1], the number of positions in the cache
)

// NextKey returns the name of the keys of layer i with the new ones in their
// places, [1, G, W, D]: the next pass takes them as [PastKey].
func NextKey(i int) string { return fmt.Sprintf("next_key_%d", i) }

// NextValue returns the name of the values of layer i with the new ones.
func NextValue(i int) string { return fmt.Sprintf("next_value_%d", i) }

// Language writes a complete model as ONNX with fixed shapes, for programs without
// mm: tokens, their position and caches in, logits, states and caches out. The
// embedding, the rotation and the mask are part of the graph. Positions beyond the
// tokens of a text, as at the end of a prompt that is read n at a time, are
// overwritten by the next pass. The caller keeps position + n within the window.
func Language(f *gguf.File, opt StepOptions) (*onnx.Model, error) {
	if opt.Span != (Span{}) {
		return nil, fmt.Errorf("writing a language model: layers %d to %d, want all", opt.Span.First, opt.Span.End()-1)
	}
	w, err := newStep(f, opt)
	if err != nil {
		return nil, err
	}
	w.g.Inputs = []onnx.Value{onnx.TensorValue(Tokens, onnx.INT64, 1, w.t), onnx.TensorValue(Position, onnx.INT64, 1)}
	if err := w.embed(); err != nil {
		return nil, err
	}
	if err := w.sides(f); err != nil {
		return nil, err
	}
	if err := w.span(Span{Count: w.s.Layers}); err != nil {
		return nil, err
	}
	w.caches()
	return w.m, nil
}

// embed writes the rows of the token embedding.
func (w *writer) embed() error {
	t, ok := w.f.Tensor(arch.TokenEmbedding)
	if !ok || t.Dims[0] != w.s.Width || t.Rows() != w.s.Vocab || !quant.CanDequantize(t.Type) {
		return fmt.Errorf("tensor %s: got %v of %v, want [%d %d]", arch.TokenEmbedding, t.Dims, t.Type, w.s.Width, w.s.Vocab)
	}
	rows := make([]float32, w.s.Width*w.s.Vocab)
	quant.Dequantize(rows, t.Data, t.Type)
	if scale := EmbeddingScale(w.s); scale != 1 {
		for i := range rows {
			rows[i] *= scale
		}
	}
	w.g.Add("Gather", []string{w.floats("embedding", rows, w.s.Vocab, w.s.Width), Tokens}, Hidden, onnx.Int("axis", 0))
	return nil
}

// sides writes the inputs of the layers that depend on positions alone.
func (w *writer) sides(f *gguf.File) error {
	p, err := NewPlaces(f, w.window)
	if err != nil {
		return fmt.Errorf("writing a language model: %w", err)
	}
	g, all := w.g, w.window+w.t
	index := g.Add("Add", []string{Position, w.ints("steps", rows(0, w.t)...)}, "index")
	for _, side := range Sides(w.s, Span{Count: w.s.Layers}, w.window, w.t) {
		switch side.Name {
		case Masks:
			w.mask(side.Name, index, 0)
		case LocalMasks:
			w.mask(side.Name, index, w.s.Window)
		default:
			table := w.floats(side.Name+"_table", p.side(side.Name, w.window, 0, all), all, side.Dims[1])
			g.Add("Gather", []string{table, index}, side.Name, onnx.Int("axis", 0))
		}
	}
	return nil
}

// mask writes the score offsets of n positions: for the cache, which is used up to
// the position, and for themselves. If width is not 0, each sees that many
// positions at most.
func (w *writer) mask(name, index string, width int) {
	g := w.g
	slots := w.g.Add("Unsqueeze", []string{w.ints("slots", rows(0, w.window)...), w.ints("zero", 0)}, name+".slots")
	seen := g.Add("Less", []string{slots, Position}, name+".used")
	if width > 0 {
		first := g.Add("Sub", []string{index, w.ints("width", width)}, name+".first")
		first = g.Add("Unsqueeze", []string{first, w.ints("axis_1", 1)}, name+".column")
		seen = g.Add("And", []string{seen, g.Add("Greater", []string{slots, first}, name+".near")}, name+".both")
	}
	earlier := g.Add("Where", []string{seen, w.floats("visible", make([]float32, w.t), w.t, 1), w.floats("masked", []float32{Masked}, 1, 1)}, name+".earlier")
	var own []float32
	offsets, all := mask(w.window, w.t, 0, width), w.window+w.t
	for t := range w.t {
		own = append(own, offsets[t*all+w.window:][:w.t]...)
	}
	g.Add("Concat", []string{earlier, w.floats(name+".own", own, w.t, w.t)}, name, onnx.Int("axis", 1))
}

// caches writes the caches of the next pass and makes them outputs in place of the
// new keys and values.
func (w *writer) caches() {
	g := w.g
	offset := g.Add("Sub", []string{w.ints("slots", rows(0, w.window)...), Position}, "offset")
	fresh := g.Add("And", []string{g.Add("Less", []string{offset, w.ints("positions", w.t)}, "offset.below"), g.Add("Greater", []string{offset, w.ints("before", -1)}, "offset.above")}, "offset.new")
	fresh = g.Add("Unsqueeze", []string{fresh, w.ints("axis_1", 1)}, "fresh") // [W, 1]
	within := g.Add("Min", []string{g.Add("Max", []string{offset, w.ints("zero", 0)}, "offset.least"), w.ints("last_position", w.t-1)}, "offset.within")
	g.Outputs = g.Outputs[:2] // logits and states
	next := func(past, now, name string) {
		if w.t > 1 {
			now = g.Add("Gather", []string{now, within}, name+".rows", onnx.Int("axis", 2))
		}
		g.Add("Where", []string{fresh, now, past}, name)
		g.Outputs = append(g.Outputs, onnx.TensorValue(name, onnx.FLOAT, 1, w.s.KVHeads, w.window, w.s.HeadDim))
	}
	for i := range w.s.Layers {
		next(PastKey(i), Key(i), NextKey(i))
		next(PastValue(i), Value(i), NextValue(i))
	}
}
