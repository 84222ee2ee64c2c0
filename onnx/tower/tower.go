// Package tower writes the vision encoders and projectors of Hugging Face
// transformers and of llama.cpp's mmproj files as ONNX models.
//
// [ReadConfig] reads a config.json of a vision language model into a [Config], and
// [ReadMMProj] an mmproj file into the same settings and weights.
// [Config.Encoder] writes the vision tower, from the normalized pixels of a
// picture or tile to features, and [Config.Projector] the part that turns
// features into vectors of the language model.
//
// Letters: P patches of a picture, C the width of the tower, H heads of D
// dimensions, N vectors of a picture, W the width of the language model.
package tower

import (
	"fmt"

	"mm-abi.org/mm/onnx"
)

// opset is the version of ai.onnx: the first with LayerNormalization.
const opset = 17

// Names of the inputs and outputs of the models.
const (
	Pixels   = "pixels"       // 1×3×height×width
	Features = "patch_tokens" // 1×P×C
	Vectors  = "llm_tokens"   // 1×N×W
)

// Encoder writes the vision tower.
func (c Config) Encoder(t Weights) (m *onnx.Model, err error) {
	switch {
	case c.grid != nil:
		return c.gridEncoder(t)
	case c.sound != nil:
		return c.soundEncoder(t)
	}
	w := newWriter(c, t, "encoder")
	defer w.halted(&m, &err)
	g := w.g
	g.Inputs = []onnx.Value{onnx.TensorValue(Pixels, onnx.FLOAT, 1, 3, c.Image, c.Image)}
	g.Outputs = []onnx.Value{onnx.TensorValue(Features, onnx.FLOAT, 1, c.Patches(), c.Width)}
	x := w.embed(Pixels) // 1×(P or 1+P)×C
	for i := range c.Layers {
		x = w.layer(i, x, "")
	}
	if w.names.post != "" {
		x = w.norm(w.names.post, x, c.Width)
	}
	if c.class { // the first position is the class
		x = g.Add("Slice", []string{x, w.ints("one", 1), w.ints("end", 1+c.Patches()), w.ints("axis", 1)}, "without_class")
	}
	g.Add("Identity", []string{x}, Features)
	return w.m, w.err
}

// embed writes the embedding of patches with their positions and, if the tower
// has it, the class before them.
func (w *writer) embed(pixels string) string {
	c, g := w.c, w.g
	n := w.names
	conv := []string{pixels, w.constant(n.embed+n.patch+".weight", c.Width, 3, c.Patch, c.Patch)}
	if w.t.has(n.embed + n.patch + ".bias") {
		conv = append(conv, w.constant(n.embed+n.patch+".bias", c.Width))
	}
	side := int64(c.Patch)
	x := g.Add("Conv", conv, "patches", onnx.IntList("strides", side, side), onnx.IntList("kernel_shape", side, side))
	x = g.Add("Reshape", []string{x, w.ints("flat", 1, c.Width, c.Patches())}, "patches.flat")
	x = g.Add("Transpose", []string{x}, "patches.rows", onnx.IntList("perm", 0, 2, 1))
	positions := c.Patches()
	if c.class {
		class := w.floats("class", w.read(n.embed+n.class, n.lead(c.Width)...), 1, 1, c.Width)
		x = g.Add("Concat", []string{class, x}, "patches.class", onnx.Int("axis", 1))
		positions++
	}
	dims := []int{positions, c.Width}
	if n.batched {
		dims = []int{1, positions, c.Width}
	}
	x = g.Add("Add", []string{x, w.floats("positions", w.read(n.embed+n.position, dims...), 1, positions, c.Width)}, "embedded")
	if n.pre != "" {
		x = w.norm(n.pre, x, c.Width)
	}
	return x
}

// layer writes x + a·attention(norm(x)), followed by x + b·mlp(norm(x)); a and b
// are 1 unless the tower scales its halves.
func (w *writer) layer(i int, x, mask string) string {
	c, n := w.c, w.names
	at := fmt.Sprintf(n.layer, i)
	half := func(name, x, y, scale string) string {
		if scale != "" {
			y = w.g.Add("Mul", []string{y, w.constant(at+scale, c.Width)}, at+scale+".scaled")
		}
		return w.g.Add("Add", []string{x, y}, at+name)
	}
	x = half("attended", x, w.attention(at, w.norm(at+n.norm1, x, c.Width), mask), n.scale1)
	y := w.norm(at+n.norm2, x, c.Width)
	up := w.linear(at+n.up, y, c.Width, c.Hidden)
	if c.grid != nil && c.grid.gated {
		gate := n.up[:len(n.up)-len("up_proj")] + "gate_proj"
		up = w.g.Add("Mul", []string{w.activated(at+"act", w.linear(at+gate, y, c.Width, c.Hidden), c.Activation), up}, at+"gated")
	} else {
		up = w.activated(at+"act", up, c.Activation)
	}
	return half("fed", x, w.linear(at+n.down, up, c.Hidden, c.Width), n.scale2)
}

// attention writes the attention of every position to those that the mask permits; all
// without a mask.
func (w *writer) attention(at, x, mask string) string {
	c, g, n := w.c, w.g, w.names
	dim := c.Width / c.Heads
	split, join := w.ints("split", 1, -1, c.Heads, dim), w.ints("join", 1, -1, c.Width)
	heads := func(part int, name, norm string, perm ...int64) string {
		y, as := w.part(at, part, name, x), at+"qkv"[part:part+1]
		if norm != "" && w.t.has(at+norm+".weight") {
			y = w.norm(at+norm, y, c.Width)
		}
		y = g.Add("Reshape", []string{y, split}, as+".split")
		if w.cos != "" && part < 2 {
			y = w.rotated(as, y)
		}
		return g.Add("Transpose", []string{y}, as+".heads", onnx.IntList("perm", perm...))
	}
	q, k, v := heads(0, n.query, n.queryNorm, 0, 2, 1, 3), heads(1, n.key, n.keyNorm, 0, 2, 3, 1), heads(2, n.value, "", 0, 2, 1, 3)
	scores := g.Add("Mul", []string{g.Add("MatMul", []string{q, k}, at+"scores"), w.number("root", rsqrt(dim))}, at+"scores.scaled")
	if mask != "" {
		scores = g.Add("Add", []string{scores, mask}, at+"scores.masked")
	}
	shares := g.Add("Softmax", []string{scores}, at+"shares", onnx.Int("axis", -1))
	mixed := g.Add("Transpose", []string{g.Add("MatMul", []string{shares, v}, at+"mixed")}, at+"mixed.rows", onnx.IntList("perm", 0, 2, 1, 3))
	return w.linear(at+n.out, g.Add("Reshape", []string{mixed, join}, at+"joined"), c.Width, c.Width)
}
