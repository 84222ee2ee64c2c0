package tower

import (
	"encoding/json"
	"fmt"
	"math"

	"mm-abi.org/mm/onnx"
)

// Moonshine is an encoder-decoder of speech that reads samples: the sizes of its
// config.json.
type Moonshine struct {
	width, hidden    int
	layers, decoder  int // of the encoder, of the decoder
	heads, asking    int // of the encoder, of the decoder
	act, gate        string
	positions, Vocab int
	theta, share     float64 // of the rotation
}

// Names of Moonshine's input and of its dimension.
const (
	inputValues = "input_values"
	samplesDim  = "samples"
)

// ReadMoonshine reads the config.json of a Moonshine model.
func ReadMoonshine(data []byte) (Moonshine, error) {
	type rope struct {
		Type  string   `json:"rope_type"`
		Theta *float64 `json:"rope_theta"`
		Share *float64 `json:"partial_rotary_factor"`
	}
	var raw struct {
		Type      string   `json:"model_type"`
		Width     *int     `json:"hidden_size"`
		Hidden    *int     `json:"intermediate_size"`
		Layers    *int     `json:"encoder_num_hidden_layers"`
		Decoder   *int     `json:"decoder_num_hidden_layers"`
		Heads     *int     `json:"encoder_num_attention_heads"`
		Asking    *int     `json:"decoder_num_attention_heads"`
		Keys      *int     `json:"encoder_num_key_value_heads"`
		Values    *int     `json:"decoder_num_key_value_heads"`
		Act       *string  `json:"encoder_hidden_act"`
		Gate      *string  `json:"decoder_hidden_act"`
		Positions *int     `json:"max_position_embeddings"`
		Vocab     *int     `json:"vocab_size"`
		Theta     *float64 `json:"rope_theta"`
		Share     *float64 `json:"partial_rotary_factor"`
		Scaling   *rope    `json:"rope_scaling"`
		Rope      rope     `json:"rope_parameters"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return Moonshine{}, err
	}
	if raw.Type != "moonshine" {
		return Moonshine{}, fmt.Errorf("unsupported model_type %.64q, want moonshine", raw.Type)
	}
	c := Moonshine{
		width: or(raw.Width, 288), hidden: or(raw.Hidden, 1152), layers: or(raw.Layers, 6), decoder: or(raw.Decoder, 6),
		heads: or(raw.Heads, 8), asking: or(raw.Asking, 8), act: or(raw.Act, "gelu"), gate: or(raw.Gate, "silu"),
		positions: or(raw.Positions, 512), Vocab: or(raw.Vocab, 32768),
		theta: or(raw.Rope.Theta, or(raw.Theta, 10000)), share: or(raw.Rope.Share, or(raw.Share, 0.9)),
	}
	switch {
	case raw.Scaling != nil || raw.Rope.Type != "" && raw.Rope.Type != "default":
		return c, fmt.Errorf("unsupported scaling of the rotation of positions")
	case or(raw.Keys, c.heads) != c.heads || or(raw.Values, c.asking) != c.asking:
		return c, fmt.Errorf("unsupported groups of heads: got %d of %d and %d of %d keys", or(raw.Keys, c.heads), c.heads, or(raw.Values, c.asking), c.asking)
	}
	return c, c.check()
}

// check validates the sizes.
func (v Moonshine) check() error {
	if err := inRange([]bounded{
		{"hidden_size", v.width, maxWidth}, {"intermediate_size", v.hidden, maxHidden}, {"vocab_size", v.Vocab, maxVocab},
		{"encoder_num_hidden_layers", v.layers, maxLayers}, {"decoder_num_hidden_layers", v.decoder, maxLayers},
		{"encoder_num_attention_heads", v.heads, v.width}, {"decoder_num_attention_heads", v.asking, v.width},
		{"max_position_embeddings", v.positions, maxPositions},
	}); err != nil {
		return err
	}
	switch {
	case v.width%v.heads != 0 || v.width%v.asking != 0:
		return fmt.Errorf("hidden_size %d is not a multiple of %d and %d heads", v.width, v.heads, v.asking)
	case !knownActivation(v.act) || !knownActivation(v.gate):
		return fmt.Errorf("unsupported activation %.64q or %.64q", v.act, v.gate)
	case !(v.theta > 1 && v.theta < 1e9) || !(v.share > 0 && v.share <= 1):
		return fmt.Errorf("unsupported rotation of positions: got rope_theta %g and partial_rotary_factor %g", v.theta, v.share)
	}
	if n := v.width / v.asking; v.rotated() > min(n, v.width/v.heads) {
		return fmt.Errorf("got heads of %d numbers, want at least %d that are rotated", n, v.rotated())
	}
	return nil
}

// rotated returns how many numbers of a head are rotated. Both halves use the heads
// of the decoder.
func (v Moonshine) rotated() int {
	n := int(float64(v.width/v.asking) * v.share)
	return (n + 1) / 2 * 2
}

// writer returns a writer of a part.
func (v Moonshine) writer(t Weights, part string) *writer {
	m := onnx.New(part, opset)
	return &writer{c: Config{Epsilon: 1e-5}, t: t, m: m, g: &m.Graph, tower: t.find(part+"conv1.weight", "model.", "") + part, written: map[string]bool{}}
}

// Encoder writes the encoder: samples to states, and the keys and values of the
// states for each layer of the decoder.
func (v Moonshine) Encoder(t Weights) (m *onnx.Model, err error) {
	w := v.writer(t, "encoder.")
	defer w.halted(&m, &err)
	g, at := w.g, w.tower
	g.Inputs = []onnx.Value{onnx.TensorValue(inputValues, onnx.FLOAT, 1, samplesDim)}
	g.Outputs = []onnx.Value{onnx.TensorValue(hiddenState, onnx.FLOAT, 1, "steps", v.width)}
	x := v.steps(w)
	w.turn(w.size(x, 1), w.ints("none", 0), v)
	for i := range v.layers {
		lead := fmt.Sprintf("%slayers.%d.", at, i)
		y := w.unbiased(lead+"input_layernorm", x, v.width)
		q, k := v.turned(w, lead+"self_attn.q_proj", y, v.heads), v.turned(w, lead+"self_attn.k_proj", y, v.heads)
		y = v.attend(w, lead+"self_attn.", q, k, v.split(w, lead+"self_attn.v_proj", y, v.heads), "", v.heads)
		x = g.Add("Add", []string{x, y}, lead+"attended")
		y = w.linear(lead+"mlp.fc1", w.unbiased(lead+"post_attention_layernorm", x, v.width), v.width, v.hidden)
		x = g.Add("Add", []string{x, w.linear(lead+"mlp.fc2", w.activated(lead+"act", y, v.act), v.hidden, v.width)}, lead+"fed")
	}
	x = g.Add("Identity", []string{w.unbiased(at+"layer_norm", x, v.width)}, hiddenState)
	decoder := t.find("decoder.norm.weight", "model.", "") + "decoder."
	for i := range v.decoder {
		for _, p := range [][2]string{{"key", "k_proj"}, {"value", "v_proj"}} {
			out := cache(present, i, "encoder", p[0])
			g.Add("Identity", []string{v.split(w, fmt.Sprintf("%slayers.%d.encoder_attn.%s", decoder, i, p[1]), x, v.asking)}, out)
			g.Outputs = append(g.Outputs, onnx.TensorValue(out, onnx.FLOAT, 1, v.asking, "steps", v.width/v.asking))
		}
	}
	return w.m, w.err
}

// steps writes the convolutions of samples.
func (v Moonshine) steps(w *writer) string {
	g, at := w.g, w.tower
	conv := func(name, x string, in, out, size, stride int) string {
		inputs := []string{x, w.constant(at+name+".weight", out, in, size)}
		if w.t.has(at + name + ".bias") {
			inputs = append(inputs, w.constant(at+name+".bias", out))
		}
		return g.Add("Conv", inputs, name, onnx.IntList("kernel_shape", int64(size)), onnx.IntList("strides", int64(stride)))
	}
	x := g.Add("Unsqueeze", []string{inputValues, w.ints("columns", 1)}, "sound")
	x = g.Add("Tanh", []string{conv("conv1", x, 1, v.width, 127, 64)}, "conv1.act")
	x = w.grouped(at+"groupnorm", x, v.width)
	x = w.activated("conv2.act", conv("conv2", x, v.width, 2*v.width, 7, 3), "gelu")
	x = w.activated("conv3.act", conv("conv3", x, 2*v.width, v.width, 3, 2), "gelu")
	return g.Add("Transpose", []string{x}, "steps", onnx.IntList("perm", 0, 2, 1))
}

// grouped writes a normalization of all channels and steps, and a gain and a shift of
// each channel.
func (w *writer) grouped(name, x string, channels int) string {
	g := w.g
	flat := g.Add("Reshape", []string{x, w.ints("flat", 1, 1, -1)}, name+".flat")
	flat = g.Add("InstanceNormalization", []string{flat, w.floats("gain", []float32{1}, 1), w.floats("shift", []float32{0}, 1)}, name+".even", onnx.Float("epsilon", 1e-5))
	x = g.Add("Reshape", []string{flat, g.Add("Shape", []string{x}, name+".size")}, name+".channels")
	gain := w.floats(name+".gain", w.read(name+".weight", channels), 1, channels, 1)
	shift := w.floats(name+".shift", w.read(name+".bias", channels), 1, channels, 1)
	return g.Add("Add", []string{g.Add("Mul", []string{x, gain}, name+".scaled"), shift}, name+".out")
}

// unbiased writes a LayerNorm without shift.
func (w *writer) unbiased(name, x string, n int) string {
	return w.g.Add("LayerNormalization", []string{x, w.constant(name+".weight", n)}, name+".out", onnx.Int("axis", -1), onnx.Float("epsilon", w.c.Epsilon))
}

// Decoder writes the decoder: ids after those of the cache, which may be empty, to
// the scores of the next one.
func (v Moonshine) Decoder(t Weights) (m *onnx.Model, err error) {
	w := v.writer(t, "decoder.")
	defer w.halted(&m, &err)
	w.tower = t.find("decoder.norm.weight", "model.", "") + "decoder."
	g, at := w.g, w.tower
	g.Inputs = []onnx.Value{onnx.TensorValue(inputIDs, onnx.INT64, 1, "ids")}
	g.Outputs = []onnx.Value{onnx.TensorValue(logits, onnx.FLOAT, 1, 1, v.Vocab)}
	w.caches(v.decoder, v.asking, v.width/v.asking, "steps")
	table := w.floats("words", transpose(w.read(at+"embed_tokens.weight", v.Vocab, v.width), v.Vocab, v.width), v.width, v.Vocab)
	x := g.Add("Transpose", []string{g.Add("Gather", []string{table, inputIDs}, "ids.columns", onnx.Int("axis", 1))}, "embedded", onnx.IntList("perm", 1, 2, 0))
	from := w.size(cache(past, 0, "decoder", "key"), 2)
	fresh := w.size(inputIDs, 1)
	w.turn(fresh, from, v)
	mask := v.mask(w, fresh, from)
	for i := range v.decoder {
		x = v.layer(w, i, x, mask)
	}
	x = g.Add("Slice", []string{w.unbiased(at+"norm", x, v.width), w.ints("last", -1), w.ints("end", math.MaxInt32), w.ints("columns", 1)}, "last")
	if t.has("proj_out.weight") {
		table = w.floats("scores", transpose(w.read("proj_out.weight", v.Vocab, v.width), v.Vocab, v.width), v.width, v.Vocab)
	}
	g.Add("MatMul", []string{x, table}, logits)
	return w.m, w.err
}

// layer writes a layer of the decoder.
func (v Moonshine) layer(w *writer, i int, x, mask string) string {
	g, lead := w.g, fmt.Sprintf("%slayers.%d.", w.tower, i)
	y := w.unbiased(lead+"input_layernorm", x, v.width)
	q := v.turned(w, lead+"self_attn.q_proj", y, v.asking)
	keys := w.grown(i, "key", v.turned(w, lead+"self_attn.k_proj", y, v.asking))
	values := w.grown(i, "value", v.split(w, lead+"self_attn.v_proj", y, v.asking))
	x = g.Add("Add", []string{x, v.attend(w, lead+"self_attn.", q, keys, values, mask, v.asking)}, lead+"attended")
	q = v.split(w, lead+"encoder_attn.q_proj", w.unbiased(lead+"post_attention_layernorm", x, v.width), v.asking)
	y = v.attend(w, lead+"encoder_attn.", q, cache(past, i, "encoder", "key"), cache(past, i, "encoder", "value"), "", v.asking)
	x = g.Add("Add", []string{x, y}, lead+"crossed")
	y = w.linear(lead+"mlp.fc1", w.unbiased(lead+"final_layernorm", x, v.width), v.width, 2*v.hidden)
	cut := func(name string, from, to int) string {
		return g.Add("Slice", []string{y, w.ints(fmt.Sprint("mlp.", from), from), w.ints(fmt.Sprint("mlp.", to), to), w.ints("axis2", 2)}, lead+name)
	}
	y = g.Add("Mul", []string{w.activated(lead+"act", cut("gate", v.hidden, 2*v.hidden), v.gate), cut("up", 0, v.hidden)}, lead+"gated")
	return g.Add("Add", []string{x, w.linear(lead+"mlp.fc2", y, v.hidden, v.width)}, lead+"fed")
}

// mask writes the addend of scores that masks later positions.
func (v Moonshine) mask(w *writer, fresh, from string) string {
	g := w.g
	to := g.Add("Add", []string{from, fresh}, "to")
	later := w.floats("later", later(v.positions), v.positions, v.positions)
	rows := g.Add("Slice", []string{later, from, to, w.ints("rows", 0)}, "later.rows")
	return g.Add("Slice", []string{rows, w.ints("none", 0), to, w.ints("columns", 1)}, "mask")
}

// turn writes cosines and sines of count positions after from.
func (w *writer) turn(count, from string, v Moonshine) {
	g, n := w.g, v.rotated()
	steps := make([]float32, n)
	dim := int(float64(v.width/v.asking) * v.share)
	for i := range n / 2 {
		steps[i] = float32(1 / math.Pow(v.theta, float64(2*i)/float64(dim)))
		steps[n/2+i] = steps[i]
	}
	at := g.Add("Add", []string{w.range1("at", count), from}, "at.positions")
	at = g.Add("Cast", []string{g.Add("Reshape", []string{at, w.ints("column", -1, 1)}, "at.column")}, "at.number", onnx.Int("to", int64(onnx.FLOAT)))
	angle := g.Add("Mul", []string{at, w.floats("frequencies", steps, 1, n)}, "at.angle")
	w.cos, w.sin = g.Add("Cos", []string{angle}, "cos"), g.Add("Sin", []string{angle}, "sin")
}

// turned writes a product whose heads are split and rotated. Transformers rotates
// neighbors; the columns are arranged so that halves are rotated instead, equally for
// queries and keys.
func (v Moonshine) turned(w *writer, name, x string, heads int) string {
	g, n, dim := w.g, v.rotated(), v.width/heads
	arranged := func(rows []float32, width int) []float32 {
		out := make([]float32, 0, len(rows))
		for h := range heads {
			for i := range dim {
				from := i
				if i < n {
					from = 2*i%n + 2*i/n
				}
				at := (h*dim + from) * width
				out = append(out, rows[at:at+width]...)
			}
		}
		return out
	}
	weight := arranged(w.read(name+".weight", v.width, v.width), v.width)
	y := g.Add("MatMul", []string{x, w.floats(name+".weight", transpose(weight, v.width, v.width), v.width, v.width)}, name+".product")
	if w.t.has(name + ".bias") {
		y = g.Add("Add", []string{y, w.floats(name+".bias", arranged(w.read(name+".bias", v.width), 1), v.width)}, name+".out")
	}
	y = v.parted(w, name, y, heads)
	cut := func(part string, from, to int) string {
		return g.Add("Slice", []string{y, w.ints(fmt.Sprint("turn.", from), from), w.ints(fmt.Sprint("turn.", to), to), w.ints("axis3", 3)}, name+"."+part)
	}
	turning := cut("turning", 0, n)
	second := g.Add("Concat", []string{g.Add("Neg", []string{cut("second", n/2, n)}, name+".negative"), cut("first", 0, n/2)}, name+".across", onnx.Int("axis", 3))
	out := g.Add("Add", []string{g.Add("Mul", []string{turning, w.cos}, name+".cos"), g.Add("Mul", []string{second, w.sin}, name+".sin")}, name+".turned")
	if n < dim {
		out = g.Add("Concat", []string{out, cut("rest", n, dim)}, name+".all", onnx.Int("axis", 3))
	}
	return out
}

// parted writes the heads of vectors.
func (v Moonshine) parted(w *writer, name, x string, heads int) string {
	y := w.g.Add("Reshape", []string{x, w.ints(fmt.Sprint("split", heads), 1, -1, heads, v.width/heads)}, name+".split")
	return w.g.Add("Transpose", []string{y}, name+".heads", onnx.IntList("perm", 0, 2, 1, 3))
}

// split writes a product whose heads are split.
func (v Moonshine) split(w *writer, name, x string, heads int) string {
	return v.parted(w, name, w.linear(name, x, v.width, v.width), heads)
}

// attend writes attention of queries to keys and values.
func (v Moonshine) attend(w *writer, at, q, keys, values, mask string, heads int) string {
	g := w.g
	q = g.Add("Mul", []string{q, w.number("root", rsqrt(v.width/heads))}, at+"query")
	scores := g.Add("MatMul", []string{q, g.Add("Transpose", []string{keys}, at+"keys", onnx.IntList("perm", 0, 1, 3, 2))}, at+"scores")
	if mask != "" {
		scores = g.Add("Add", []string{scores, mask}, at+"scores.masked")
	}
	shares := g.Add("Softmax", []string{scores}, at+"shares", onnx.Int("axis", -1))
	mixed := g.Add("Transpose", []string{g.Add("MatMul", []string{shares, values}, at+"mixed")}, at+"mixed.rows", onnx.IntList("perm", 0, 2, 1, 3))
	return w.linear(at+"o_proj", g.Add("Reshape", []string{mixed, w.ints("join", 1, -1, v.width)}, at+"joined"), v.width, v.width)
}
