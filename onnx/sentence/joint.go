package sentence

import (
	"encoding/json"
	"fmt"

	"mm-abi.org/mm/onnx"
)

// joint holds the properties of a tower that shares its space with pictures.
type joint struct {
	causal bool // a position attends to those before it
	fixed  bool // padding fills all positions and counts as text
	pad    int  // id of that padding
	end    int  // id whose first position is the vector; legacyEnd: that of the greatest id
	into   int  // width of the projection
	head   string
	prefix bool // of the head's name
}

// legacyEnd is the end of a text in configurations before transformers 4.31, where it was
// wrong.
const legacyEnd = 2

// rawTower holds the keys of a text_config of CLIP and SigLIP.
type rawTower struct {
	Vocab      *int            `json:"vocab_size"`
	Width      *int            `json:"hidden_size"`
	Hidden     *int            `json:"intermediate_size"`
	Layers     *int            `json:"num_hidden_layers"`
	Heads      *int            `json:"num_attention_heads"`
	Positions  *int            `json:"max_position_embeddings"`
	Activation *string         `json:"hidden_act"`
	Epsilon    *float64        `json:"layer_norm_eps"`
	End        json.RawMessage `json:"eos_token_id"`
	Projection *int            `json:"projection_size"`
}

// ReadTower reads the text tower of a config.json of CLIP or SigLIP. Absent keys have the
// defaults of transformers. pad is the id of padding, -1 if the tokenizer has none.
func ReadTower(data []byte, pad int) (Config, error) {
	var raw struct {
		ModelType string   `json:"model_type"`
		Text      rawTower `json:"text_config"`
		Into      *int     `json:"projection_dim"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return Config{}, err
	}
	t := &raw.Text
	f := family{before: true, names: names{
		prefixes: []string{"text_model."}, words: "embeddings.token_embedding", positions: "embeddings.position_embedding", last: "final_layer_norm",
		layer: "encoder.layers.%d.", query: "self_attn.q_proj", key: "self_attn.k_proj", value: "self_attn.v_proj", out: "self_attn.out_proj",
		norm1: "layer_norm1", up: "mlp.fc1", down: "mlp.fc2", norm2: "layer_norm2",
	}}
	c := Config{Family: raw.ModelType, family: f}
	var width, hidden, heads, vocab, positions int
	var act string
	var epsilon float64
	switch raw.ModelType {
	case "clip":
		width, hidden, heads, vocab, positions, act, epsilon = 512, 2048, 8, 49408, 77, "quick_gelu", 1e-5
		c.joint = &joint{causal: true, end: 49407, into: or(raw.Into, 512), head: "text_projection"}
		if len(t.End) > 0 && json.Unmarshal(t.End, &c.joint.end) != nil {
			return c, fmt.Errorf("unsupported eos_token_id %.40s, want a number", t.End)
		}
	case "siglip":
		width, hidden, heads, vocab, positions, act, epsilon = 768, 3072, 12, 32000, 64, "gelu_pytorch_tanh", 1e-6
		c.joint = &joint{fixed: true, pad: pad, into: or(t.Projection, or(t.Width, width)), head: "head", prefix: true}
		if pad < 0 {
			return c, fmt.Errorf("no padding token in the tokenizer: want one, with which the model was trained")
		}
	default:
		return c, fmt.Errorf("unsupported model_type %.40q, want clip or siglip", raw.ModelType)
	}
	c.Vocab, c.Positions, c.Width, c.Hidden, c.Heads, c.Layers = or(t.Vocab, vocab), or(t.Positions, positions), or(t.Width, width), or(t.Hidden, hidden), or(t.Heads, heads), or(t.Layers, 12)
	c.Activation, c.Epsilon = or(t.Activation, act), float32(or(t.Epsilon, epsilon))
	switch {
	case c.joint.into < 1 || c.joint.into > maxWidth:
		return c, fmt.Errorf("projection: got width %d, want 1 to %d", c.joint.into, maxWidth)
	case c.joint.end < 0 || c.joint.pad >= c.Vocab:
		return c, fmt.Errorf("eos_token_id %d and padding %d, want ids below vocab_size %d", c.joint.end, c.joint.pad, c.Vocab)
	case c.joint.fixed && c.Positions > maxFixed:
		return c, fmt.Errorf("max_position_embeddings %d, limit %d of a model that pads each text to them", c.Positions, maxFixed)
	case !(c.Epsilon >= 0):
		return c, fmt.Errorf("bad layer_norm_eps: %v", c.Epsilon)
	}
	return c, c.check()
}

// maxFixed bounds the positions of a model that computes all of them for each text.
const maxFixed = 1 << 10

func or[T any](v *T, absent T) T {
	if v == nil {
		return absent
	}
	return *v
}

// Into returns the size of the vectors of a tower that shares its space with pictures.
func (c *Config) Into() int { return c.joint.into }

// joint writes a tower whose vectors share their space with pictures.
func (w *writer) joint(mask string) {
	c, g, j := w.c, w.g, w.c.joint
	g.Outputs = []onnx.Value{onnx.TensorValue(Embedding, onnx.FLOAT, "N", j.into)}
	if j.fixed {
		w.fill()
	} else {
		w.length = g.Add("Slice", []string{g.Add("Shape", []string{IDs}, "shape"), w.ints("one", 1), w.ints("two", 2)}, "length.T")
		w.attend(mask)
	}
	x := w.embed()
	if j.causal {
		w.causal()
	}
	for i := range c.Layers {
		x = w.layer(i, x)
	}
	x = w.norm(w.at0(c.names.last), x)
	head := j.head
	if j.prefix {
		head = w.at0(head)
	}
	y := w.linear(head, w.ending(x, mask), c.Width, j.into)
	g.Add("Identity", []string{w.unit(y)}, Embedding)
}

// fill writes ids that are padded to all positions.
func (w *writer) fill() {
	c, g := w.c, w.g
	pad := w.integers("pad", []int64{1, 1}, []int64{int64(c.joint.pad)})
	used := g.Add("Cast", []string{Mask}, "mask.used", onnx.Int("to", int64(onnx.BOOL)))
	kept := g.Add("Where", []string{used, IDs, pad}, "ids.kept")
	n := g.Add("Slice", []string{g.Add("Shape", []string{IDs}, "shape"), w.ints("zero", 0), w.ints("one", 1)}, "length.N")
	w.length = w.ints("positions", c.Positions)
	size := g.Add("Concat", []string{n, w.length}, "padding.shape", onnx.Int("axis", 0))
	more := g.Add("Concat", []string{kept, g.Add("Expand", []string{pad, size}, "padding")}, "ids.long", onnx.Int("axis", 1))
	w.ids = g.Add("Slice", []string{more, w.ints("zero", 0), w.length, w.ints("one", 1)}, "ids.all")
}

// positions returns the positions in use as integers.
func (w *writer) positions() string {
	return w.once("order", func() string {
		g := w.g
		return g.Add("Range", []string{w.scalar("from", 0), g.Add("Squeeze", []string{w.length}, "length.one"), w.scalar("step", 1)}, "order")
	})
}

// causal adds later positions to the summand of the scores of attention.
func (w *writer) causal() {
	g := w.g
	order := w.positions()
	rows, cols := w.along("Unsqueeze", order, "order.rows", 1), w.along("Unsqueeze", order, "order.cols", 0)
	later := g.Add("Cast", []string{g.Add("Less", []string{rows, cols}, "later")}, "later.float", onnx.Int("to", int64(onnx.FLOAT)))
	w.all = g.Add("Add", []string{w.all, g.Add("Mul", []string{later, w.number("lost", float64(never))}, "later.bias")}, "causal.all")
}

// ending writes the state of the position that represents the text: the last one, or the
// first with the end of a text or the greatest id.
func (w *writer) ending(x, mask string) string {
	g, j := w.g, w.c.joint
	if j.fixed {
		n := w.c.Positions
		last := g.Add("Slice", []string{x, w.ints("last", n-1), w.ints("after", n), w.ints("one", 1)}, "states.last")
		return w.along("Squeeze", last, "state", 1)
	}
	marks := ""
	if j.end == legacyEnd {
		marks = g.Add("Add", []string{g.Add("Cast", []string{IDs}, "ids.float", onnx.Int("to", int64(onnx.FLOAT))), w.number("unit", 1)}, "ids.from_one")
	} else {
		end := w.integers("end", []int64{1}, []int64{int64(j.end)})
		marks = g.Add("Cast", []string{g.Add("Equal", []string{IDs, end}, "ended")}, "ended.float", onnx.Int("to", int64(onnx.FLOAT)))
	}
	at := g.Add("ArgMax", []string{g.Add("Mul", []string{marks, mask}, "marks")}, "ending.at", onnx.Int("axis", 1), onnx.Int("keepdims", 1))
	chosen := g.Add("Cast", []string{g.Add("Equal", []string{at, w.positions()}, "ending.is")}, "ending", onnx.Int("to", int64(onnx.FLOAT)))
	row := g.Add("MatMul", []string{w.along("Unsqueeze", chosen, "ending.row", 1), x}, "states.ending")
	return w.along("Squeeze", row, "state", 1)
}
