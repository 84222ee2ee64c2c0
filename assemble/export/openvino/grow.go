package openvino

import (
	"fmt"
	"io"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/onnx/lower"
	"mm-abi.org/mm/onnx/window"
)

// The file that OpenVINO GenAI opens in a folder.
const generative = "openvino_model"

// grower adds the parts around a growing model: the inputs of OpenVINO GenAI, and the
// caches, which are variables of the runtime.
type grower struct {
	*writer
	m                    export.Growing
	texts, positions     int // open dimensions
	before, all          int
	tokens, seen, places *result
	beams                *result
}

// Grow implements export.Grower. The model reads any number of texts, whose
// attention_mask covers the positions before as well, and beam_idx selects which text
// each continues.
func (Form) Grow(m export.Growing, name, precision string) ([]export.Output, []lower.Problem, error) {
	in, past, now := m.Graph.Inputs[0], m.Graph.Inputs[len(m.Graph.Inputs)-1], m.Graph.Outputs[1]
	w := &grower{writer: newWriter(precision), m: m, texts: in.Shape[0], positions: in.Shape[1], before: past.Shape[2], all: now.Shape[2]}
	names := export.GrowingInputs()
	w.tokens = w.parameter(names[0], i64, in.Shape)
	w.seen = w.parameter(names[1], i64, []int{w.texts, w.all})
	w.places = w.parameter(names[2], i64, in.Shape)
	w.beams = w.parameter(names[3], i32, []int{w.texts})
	caches := map[string]string{} // names of new keys and values to their variables
	for i := range m.Shape.Layers {
		caches[window.PastKey(i)] = fmt.Sprintf("past_key_values.%d.keypresent.%d.key", i, i)
		caches[window.PastValue(i)] = fmt.Sprintf("past_key_values.%d.valuepresent.%d.value", i, i)
	}
	for _, v := range m.Graph.Inputs {
		w.node = v.Name
		w.at[v] = w.input(v, caches[v.Name])
	}
	attend(m.Graph)
	if problems := w.nodes(m.Graph); len(problems) > 0 {
		return nil, problems, nil
	}
	w.output(m.Graph.Outputs[0])
	for i := range m.Shape.Layers {
		w.keep(m.Graph.Outputs[1+2*i], caches[window.PastKey(i)])
		w.keep(m.Graph.Outputs[2+2*i], caches[window.PastValue(i)])
	}
	w.options = []string{"KV_CACHE_PRECISION", "f16"} // 8 bits by default
	if precision == fp32 {
		w.options[1] = "f32"
	}
	text := w.xml(name)
	return []export.Output{
		{Path: generative + ".xml", Write: func(to io.Writer) error {
			_, err := to.Write(text)
			return err
		}},
		{Path: generative + ".bin", Write: w.bin.write},
	}, nil, nil
}

// input returns the source of an input of the graph.
func (w *grower) input(v *lower.Value, variable string) *result {
	switch v.Name {
	case window.Tokens:
		return w.tokens
	case window.Masks:
		return w.mask(v.Shape, 0)
	case window.LocalMasks:
		return w.mask(v.Shape, w.m.Shape.Window)
	case window.Cos, window.LocalCos:
		return w.turned("Cos", v)
	case window.Sin, window.LocalSin:
		return w.turned("Sin", v)
	}
	return w.cache(v, variable)
}

// size returns a dimension of a result, as a list of one.
func (w *grower) size(r *result, axis int) *result {
	shape := w.add("ShapeOf", "opset3", i64, []int{len(r.shape)}, []*result{r}, "output_type", "i64")
	return w.add("Gather", "opset8", i64, []int{1}, []*result{shape, w.ints(axis), w.integer(0)}, "batch_dims", "0")
}

// single returns a list of one as a number.
func (w *grower) single(r *result) *result {
	return w.add("Squeeze", "opset1", r.elem, nil, []*result{r, w.ints(0)})
}

// cache adds the variable of keys or values. It has no positions at first; then its
// texts are those that beam_idx selects.
func (w *grower) cache(v *lower.Value, variable string) *result {
	parts := []*result{w.size(w.tokens, 0), w.ints(v.Shape[1]), w.ints(0), w.ints(v.Shape[3])}
	shape := w.add("Concat", "opset1", i64, []int{4}, parts, "axis", "0")
	empty := w.add("Broadcast", "opset3", f32, v.Shape, []*result{w.number(0), shape}, "mode", "numpy")
	old := w.add("ReadValue", "opset6", f32, v.Shape, []*result{empty}, w.variable(v, variable)...)
	return w.add("Gather", "opset8", f32, v.Shape, []*result{old, w.beams, w.integer(0)}, "batch_dims", "0")
}

// variable returns the attributes of a variable.
func (w *grower) variable(v *lower.Value, name string) []string {
	return []string{"variable_id", name, "variable_type", "f32", "variable_shape", open(v.Shape)}
}

// keep assigns all keys or values to their variable.
func (w *grower) keep(v *lower.Value, variable string) {
	w.node = v.Name + ".keep"
	w.add("Assign", "opset6", f32, v.Shape, []*result{w.value(v)}, w.variable(v, variable)...)
}

// turned adds the cosines or sines of a rotation at the places of the texts.
func (w *grower) turned(kind string, v *lower.Value) *result {
	theta, scale := w.m.Places.Rotation(v.Name == window.LocalCos || v.Name == window.LocalSin)
	angles := make([]float32, len(theta))
	for i, x := range theta {
		angles[i] = float32(x)
	}
	at := w.reshape(w.convert(w.places, f32), []int{w.texts, 1, w.positions, 1})
	r := w.add(kind, "opset1", f32, v.Shape, []*result{w.both("Multiply", f32, at, w.raw(f32, []int{1, 1, 1, len(angles)}, export.Float32s(angles)))})
	if scale != 1 {
		r = w.both("Multiply", f32, r, w.number(float32(scale)))
	}
	return r
}

// mask adds the score offsets: a position sees those up to itself that the mask of
// the text has, and if width is not 0, that many at most.
func (w *grower) mask(shape []int, width int) *result {
	all, now, one := w.single(w.size(w.seen, 1)), w.single(w.size(w.tokens, 1)), w.integer(1)
	columns := w.add("Range", "opset4", i64, []int{w.all}, []*result{w.integer(0), all, one}, "output_type", "i64")
	rows := w.add("Range", "opset4", i64, []int{w.positions}, []*result{w.both("Subtract", i64, all, now), all, one}, "output_type", "i64")
	rows = w.add("Unsqueeze", "opset1", i64, []int{w.positions, 1}, []*result{rows, w.ints(1)})
	visible := w.both("LessEqual", boolean, columns, rows)
	if width > 0 {
		near := w.both("Greater", boolean, columns, w.both("Subtract", i64, rows, w.integer(width)))
		visible = w.both("LogicalAnd", boolean, visible, near)
	}
	present := w.both("NotEqual", boolean, w.seen, w.integer(0))
	present = w.add("Unsqueeze", "opset1", boolean, []int{w.texts, 1, 1, w.all}, []*result{present, w.ints(1, 2)})
	visible = w.both("LogicalAnd", boolean, visible, present)
	return w.add("Select", "opset1", f32, shape, []*result{visible, w.number(0), w.number(window.Masked)}, "auto_broadcast", "numpy")
}
