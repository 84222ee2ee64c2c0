package tower

import (
	"mm-abi.org/mm/onnx"
)

// Projector writes the part between the features of a picture and the vectors of
// the language model.
func (c Config) Projector(t Weights) (m *onnx.Model, err error) {
	switch {
	case c.grid != nil:
		return c.gridProjector(t)
	case c.sound != nil:
		return c.soundProjector(t)
	}
	w := newWriter(c, t, "projector")
	defer w.halted(&m, &err)
	w.g.Inputs = []onnx.Value{onnx.TensorValue(Features, onnx.FLOAT, 1, c.Patches(), c.Width)}
	w.g.Outputs = []onnx.Value{onnx.TensorValue(Vectors, onnx.FLOAT, 1, c.Count(), c.Into)}
	at, x := w.names.projector, Features
	switch c.Family {
	case "gemma3":
		x = w.pool(x)
		gain := w.read(at+"mm_soft_emb_norm.weight", c.Width)
		for i := range gain {
			gain[i]++ // stored minus 1
		}
		x = w.rms(at+"mm_soft_emb_norm", x, w.floats(at+"mm_soft_emb_norm.gain", gain, c.Width))
		x = w.product(at+"mm_input_projection", x, w.read(at+"mm_input_projection_weight", c.Width, c.Into), c.Width, c.Into)
	case "paligemma":
		x = w.linear(at+"linear", x, c.Width, c.Into)
	case "idefics3", "smolvlm":
		x = w.linear(at+"modality_projection.proj", w.shuffle(x), c.Width*c.Shuffle*c.Shuffle, c.Into)
	case "internvl":
		wide := c.Width * c.Shuffle * c.Shuffle
		w.c.rms, w.c.Epsilon = false, 1e-5 // of torch's LayerNorm
		x = w.norm(at+"layer_norm", w.shuffle(x), wide)
		x = w.activated(at+"act", w.linear(at+"linear_1", x, wide, c.Into), c.Act)
		x = w.linear(at+"linear_2", x, c.Into, c.Into)
	default: // llava
		x = w.activated(at+"act", w.linear(at+"linear_1", x, c.Width, c.Into), c.Act)
		x = w.linear(at+"linear_2", x, c.Into, c.Into)
	}
	if c.newline {
		name := w.t.find("image_newline", "", "model.") + "image_newline"
		x = w.g.Add("Concat", []string{x, w.floats("newline", w.read(name, c.Into), 1, 1, c.Into)}, "rows.end", onnx.Int("axis", 1))
	}
	w.g.Add("Identity", []string{x}, Vectors)
	return w.m, w.err
}

// projectorPart returns a tensor that the projector of a family has.
func projectorPart(family string) string {
	switch family {
	case "gemma3":
		return "mm_soft_emb_norm.weight"
	case "paligemma", "qwen2_audio":
		return "linear.weight"
	case "idefics3", "smolvlm":
		return "modality_projection.proj.weight"
	}
	return "linear_1.weight"
}

// shuffle joins blocks of s×s patches: P×C becomes P/s²×C·s².
func (w *writer) shuffle(x string) string {
	c, g, s := w.c, w.g, w.c.Shuffle
	if s == 1 {
		return x
	}
	n := c.Image / c.Patch / s
	x = g.Add("Reshape", []string{x, w.ints("blocks", n, s, n, s*c.Width)}, "blocks")
	x = g.Add("Transpose", []string{x}, "blocks.rows", onnx.IntList("perm", 0, 2, 1, 3))
	return g.Add("Reshape", []string{x, w.ints("joined", 1, n*n, s*s*c.Width)}, "blocks.joined")
}

// pool averages blocks of s×s patches: P×C becomes P/s²×C.
func (w *writer) pool(x string) string {
	c, g, s := w.c, w.g, w.c.Pool
	n := c.Image / c.Patch / s
	x = g.Add("Reshape", []string{x, w.ints("blocks", n, s, n, s*c.Width)}, "blocks")
	x = g.Add("Transpose", []string{x}, "blocks.rows", onnx.IntList("perm", 0, 2, 1, 3))
	x = g.Add("Reshape", []string{x, w.ints("parts", 1, n*n, s*s, c.Width)}, "blocks.parts")
	return g.Add("ReduceMean", []string{x}, "blocks.mean", onnx.IntList("axes", 2), onnx.Int("keepdims", 0))
}
