package tower

import (
	"encoding/json"
	"fmt"
	"strings"

	"mm-abi.org/mm/onnx"
)

// Embedding is the output of a tower that shares its space with texts, 1×D.
const Embedding = "embedding"

// jointFamilies are the models whose pictures and texts share a space.
func jointFamilies() map[string]family {
	return map[string]family{
		"clip":   {[]string{"clip_vision_model"}, readCLIP},
		"siglip": {[]string{"siglip_vision_model"}, readSigLIP},
	}
}

// IsJoint reports whether a model_type is one whose pictures and texts share a space.
func IsJoint(modelType string) bool { _, ok := jointFamilies()[modelType]; return ok }

// joint reports whether the tower shares its space with texts.
func (c Config) joint() bool { return IsJoint(c.Family) }

// ReadJoint reads the tower of pictures of a config.json of CLIP or SigLIP. Absent keys
// have the defaults of transformers.
func ReadJoint(data []byte) (Config, error) {
	var raw rawConfig
	if err := json.Unmarshal(data, &raw); err != nil {
		return Config{}, err
	}
	f, ok := jointFamilies()[raw.ModelType]
	if !ok {
		return Config{}, fmt.Errorf("unsupported model_type %.40q, want one of %s", raw.ModelType, strings.Join([]string{"clip", "siglip"}, ", "))
	}
	return f.config(&raw)
}

// readCLIP: the state of the class, after its norm, is projected.
func readCLIP(c *Config, raw *rawConfig) error {
	c.Into, c.names.post = or(raw.Into, 512), "post_layernorm"
	return nil
}

// readSigLIP: a learned query attends to the states.
func readSigLIP(c *Config, raw *rawConfig) error {
	if !or(raw.Vision.Head, true) {
		return fmt.Errorf("unsupported vision_use_head: false")
	}
	c.Into, c.names.post = c.Width, "post_layernorm"
	return nil
}

// Joint writes the tower of pictures of a model whose texts share the space of its
// vectors.
func (c Config) Joint(t Weights) (m *onnx.Model, err error) {
	w := newWriter(c, t, "encoder")
	defer w.halted(&m, &err)
	g := w.g
	g.Inputs = []onnx.Value{onnx.TensorValue(Pixels, onnx.FLOAT, 1, 3, c.Image, c.Image)}
	g.Outputs = []onnx.Value{onnx.TensorValue(Embedding, onnx.FLOAT, 1, c.Into)}
	x := w.embed(Pixels)
	for i := range c.Layers {
		x = w.layer(i, x, "")
	}
	if c.class {
		x = g.Add("Slice", []string{x, w.ints("zero", 0), w.ints("one", 1), w.ints("axis", 1)}, "class.state")
		x = w.linear("visual_projection", w.norm(w.names.post, x, c.Width), c.Width, c.Into)
	} else {
		x = w.attentive(w.norm(w.names.post, x, c.Width))
	}
	x = g.Add("Reshape", []string{x, w.ints("vector", 1, c.Into)}, "vector")
	length := g.Add("ReduceL2", []string{x}, "length", onnx.IntList("axes", 1), onnx.Int("keepdims", 1))
	g.Add("Div", []string{x, g.Add("Max", []string{length, w.number("short", 1e-12)}, "length.least")}, Embedding)
	return w.m, w.err
}

// attentive writes the attention of a learned query to the states, and a residual half.
func (w *writer) attentive(x string) string {
	c, g, at := w.c, w.g, w.tower+"head."
	weight, bias := w.read(at+"attention.in_proj_weight", 3*c.Width, c.Width), w.read(at+"attention.in_proj_bias", 3*c.Width)
	split, join := w.ints("split", 1, -1, c.Heads, c.Width/c.Heads), w.ints("join", 1, -1, c.Width)
	heads := func(part int, x string, perm ...int64) string {
		name, from := at+"attention."+"qkv"[part:part+1], part*c.Width
		y := w.product(name, x, transpose(weight[from*c.Width:(from+c.Width)*c.Width], c.Width, c.Width), c.Width, c.Width)
		y = g.Add("Add", []string{y, w.floats(name+".bias", bias[from:from+c.Width], c.Width)}, name+".placed")
		return g.Add("Transpose", []string{g.Add("Reshape", []string{y, split}, name+".split")}, name+".heads", onnx.IntList("perm", perm...))
	}
	q := heads(0, w.constant(at+"probe", 1, 1, c.Width), 0, 2, 1, 3)
	k, v := heads(1, x, 0, 2, 3, 1), heads(2, x, 0, 2, 1, 3)
	scores := g.Add("Mul", []string{g.Add("MatMul", []string{q, k}, at+"scores"), w.number("root", rsqrt(c.Width/c.Heads))}, at+"scores.scaled")
	mixed := g.Add("MatMul", []string{g.Add("Softmax", []string{scores}, at+"shares", onnx.Int("axis", -1)), v}, at+"mixed")
	mixed = g.Add("Reshape", []string{g.Add("Transpose", []string{mixed}, at+"mixed.rows", onnx.IntList("perm", 0, 2, 1, 3)), join}, at+"joined")
	y := w.linear(at+"attention.out_proj", mixed, c.Width, c.Width)
	up := w.activated(at+"act", w.linear(at+"mlp.fc1", w.norm(at+"layernorm", y, c.Width), c.Width, c.Hidden), c.Activation)
	return g.Add("Add", []string{y, w.linear(at+"mlp.fc2", up, c.Hidden, c.Width)}, at+"out")
}
