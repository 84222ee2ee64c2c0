package tower

import (
	"encoding/json"
	"fmt"
	"math"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/onnx"
)

// Whisper is an encoder-decoder of speech: the sizes of its config.json.
type Whisper struct {
	encoder   Config
	Width     int
	layers    int // of the decoder
	heads     int
	hidden    int
	Vocab     int
	Positions int // of the decoder
	scale     bool
}

// Limits of a decoder.
const (
	maxVocab     = 1 << 20
	maxPositions = 1 << 13
)

// ReadWhisper reads the config.json of a Whisper model.
func ReadWhisper(data []byte) (Whisper, error) {
	var raw struct {
		Type      string  `json:"model_type"`
		Width     *int    `json:"d_model"`
		Layers    *int    `json:"encoder_layers"`
		Heads     *int    `json:"encoder_attention_heads"`
		Hidden    *int    `json:"encoder_ffn_dim"`
		DecLayers *int    `json:"decoder_layers"`
		DecHeads  *int    `json:"decoder_attention_heads"`
		DecHidden *int    `json:"decoder_ffn_dim"`
		Vocab     *int    `json:"vocab_size"`
		Mels      *int    `json:"num_mel_bins"`
		Source    *int    `json:"max_source_positions"`
		Target    *int    `json:"max_target_positions"`
		Act       *string `json:"activation_function"`
		Scale     *bool   `json:"scale_embedding"`
		Tied      *bool   `json:"tie_word_embeddings"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return Whisper{}, err
	}
	if raw.Type != "whisper" {
		return Whisper{}, fmt.Errorf("unsupported model_type %.64q, want whisper", raw.Type)
	}
	if !or(raw.Tied, true) {
		return Whisper{}, fmt.Errorf("unsupported tie_word_embeddings false")
	}
	act := or(raw.Act, "gelu")
	c := Config{
		Family: "whisper", Shuffle: 1, Pool: 1, Into: or(raw.Width, 384), Epsilon: 1e-5, Act: act, Activation: act,
		Width: or(raw.Width, 384), Layers: or(raw.Layers, 4), Heads: or(raw.Heads, 6), Hidden: or(raw.Hidden, 1536),
		sound: &sound{mels: or(raw.Mels, 80), positions: or(raw.Source, 1500), pool: 1, stack: 1},
		names: names{
			patch: "conv1", post: "layer_norm", layer: "layers.%d.", norm1: "self_attn_layer_norm", norm2: "final_layer_norm",
			query: "self_attn.q_proj", key: "self_attn.k_proj", value: "self_attn.v_proj", out: "self_attn.out_proj", up: "fc1", down: "fc2",
		},
	}
	w := Whisper{
		encoder: c, Width: c.Width, layers: or(raw.DecLayers, 4), heads: or(raw.DecHeads, 6), hidden: or(raw.DecHidden, 1536),
		Vocab: or(raw.Vocab, 51865), Positions: or(raw.Target, 448), scale: or(raw.Scale, false),
	}
	return w, w.check()
}

// check validates the sizes.
func (v Whisper) check() error {
	if err := v.encoder.checkAudio(); err != nil {
		return err
	}
	if err := inRange([]bounded{
		{"number of layers of the decoder", v.layers, maxLayers}, {"number of heads of the decoder", v.heads, v.Width},
		{"decoder_ffn_dim", v.hidden, maxHidden}, {"vocab_size", v.Vocab, maxVocab}, {"max_target_positions", v.Positions, maxPositions},
	}); err != nil {
		return err
	}
	if v.Width%v.heads != 0 {
		return fmt.Errorf("width %d is not a multiple of %d heads of the decoder", v.Width, v.heads)
	}
	return nil
}

// Preprocess reads the preprocessor_config.json of a Whisper model.
func (v Whisper) Preprocess(data []byte) (preprocess.Spec, error) {
	s, err := v.encoder.Preprocess(data)
	if err == nil {
		s.Span.Longer = "cut"
	}
	return s, err
}

// writer returns a writer of the tensors of a part.
func (v Whisper) writer(t Weights, part string) *writer {
	w := newWriter(v.encoder, t, part)
	w.names = v.encoder.names
	w.tower = t.find("layer_norm.weight", "model."+part+".", part+".")
	w.names.post, w.names.layer = w.tower+w.names.post, w.tower+w.names.layer
	return w
}

// Names of the inputs and outputs of an encoder-decoder, as Optimum writes them.
const (
	inputFeatures = "input_features"
	hiddenState   = "last_hidden_state"
	inputIDs      = "input_ids"
	logits        = "logits"
	past          = "past_key_values."
	present       = "present."
)

// cache returns the name of a key or a value.
func cache(lead string, layer int, part, what string) string {
	return fmt.Sprintf("%s%d.%s.%s", lead, layer, part, what)
}

// Encoder writes the encoder of a Whisper model, followed by the keys and values of
// its states for each layer of the decoder.
func (v Whisper) Encoder(t Weights) (m *onnx.Model, err error) {
	w := v.writer(t, "encoder")
	defer w.halted(&m, &err)
	g, s := w.g, v.encoder.sound
	g.Inputs = []onnx.Value{onnx.TensorValue(inputFeatures, onnx.FLOAT, 1, s.mels, 2*s.positions)}
	g.Outputs = []onnx.Value{onnx.TensorValue(hiddenState, onnx.FLOAT, 1, s.positions, v.Width)}
	x := w.step("conv1", inputFeatures, s.mels, 1)
	x = g.Add("Transpose", []string{w.step("conv2", x, v.Width, 2)}, "steps", onnx.IntList("perm", 0, 2, 1))
	x = g.Add("Add", []string{x, w.floats("positions", w.read(w.tower+"embed_positions.weight", s.positions, v.Width), 1, s.positions, v.Width)}, "embedded")
	for i := range v.encoder.Layers {
		x = w.layer(i, x, "")
	}
	x = g.Add("Identity", []string{w.norm(w.names.post, x, v.Width)}, hiddenState)
	at := t.find("layer_norm.weight", "model.decoder.", "decoder.")
	for i := range v.layers {
		for _, p := range [][2]string{{"key", "k_proj"}, {"value", "v_proj"}} {
			y := v.split(w, w.linear(fmt.Sprintf("%slayers.%d.encoder_attn.%s", at, i, p[1]), x, v.Width, v.Width))
			out := cache(present, i, "encoder", p[0])
			g.Add("Identity", []string{y}, out)
			g.Outputs = append(g.Outputs, onnx.TensorValue(out, onnx.FLOAT, 1, v.heads, s.positions, v.Width/v.heads))
		}
	}
	return w.m, w.err
}

// split writes the heads of vectors.
func (v Whisper) split(w *writer, x string) string {
	y := w.g.Add("Reshape", []string{x, w.ints("split", 1, -1, v.heads, v.Width/v.heads)}, x+".split")
	return w.g.Add("Transpose", []string{y}, x+".heads", onnx.IntList("perm", 0, 2, 1, 3))
}

// Decoder writes the decoder of a Whisper model: ids after those of the cache, which
// may be empty, to the scores of the next one.
func (v Whisper) Decoder(t Weights) (m *onnx.Model, err error) {
	w := v.writer(t, "decoder")
	defer w.halted(&m, &err)
	g, dim := w.g, v.Width/v.heads
	g.Inputs = []onnx.Value{onnx.TensorValue(inputIDs, onnx.INT64, 1, "ids")}
	g.Outputs = []onnx.Value{onnx.TensorValue(logits, onnx.FLOAT, 1, 1, v.Vocab)}
	for i := range v.layers {
		for _, what := range []string{"key", "value"} {
			g.Inputs = append(g.Inputs, onnx.TensorValue(cache(past, i, "decoder", what), onnx.FLOAT, 1, v.heads, "past", dim),
				onnx.TensorValue(cache(past, i, "encoder", what), onnx.FLOAT, 1, v.heads, v.encoder.sound.positions, dim))
			g.Outputs = append(g.Outputs, onnx.TensorValue(cache(present, i, "decoder", what), onnx.FLOAT, 1, v.heads, "total", dim))
		}
	}
	table := w.floats("words", transpose(w.read(w.tower+"embed_tokens.weight", v.Vocab, v.Width), v.Vocab, v.Width), v.Width, v.Vocab)
	x := g.Add("Transpose", []string{g.Add("Gather", []string{table, inputIDs}, "ids.columns", onnx.Int("axis", 1))}, "ids.words", onnx.IntList("perm", 1, 2, 0))
	if v.scale {
		x = g.Add("Mul", []string{x, w.number("scale", math.Sqrt(float64(v.Width)))}, "ids.scaled")
	}
	from := w.size(cache(past, 0, "decoder", "key"), 2)
	to := g.Add("Add", []string{from, w.size(inputIDs, 1)}, "to")
	at := g.Add("Slice", []string{w.constant(w.tower+"embed_positions.weight", v.Positions, v.Width), from, to, w.ints("rows", 0)}, "places")
	x = g.Add("Add", []string{x, at}, "embedded")
	mask := g.Add("Slice", []string{g.Add("Slice", []string{w.floats("later", later(v.Positions), v.Positions, v.Positions), from, to, w.ints("rows", 0)}, "later.rows"), w.ints("none", 0), to, w.ints("columns", 1)}, "mask")
	for i := range v.layers {
		x = v.layer(w, i, x, mask)
	}
	x = g.Add("Slice", []string{w.norm(w.names.post, x, v.Width), w.ints("last", -1), w.ints("end", math.MaxInt32), w.ints("columns", 1)}, "last")
	g.Add("MatMul", []string{x, table}, logits)
	return w.m, w.err
}

// later returns the mask of scores of n positions: -∞ for later ones.
func later(n int) []float32 {
	out := make([]float32, n*n)
	for i := range n {
		for j := i + 1; j < n; j++ {
			out[i*n+j] = -math.MaxFloat32
		}
	}
	return out
}

// size writes a dimension of a tensor, [1].
func (w *writer) size(x string, axis int) string {
	shape := w.g.Add("Shape", []string{x}, x+".shape")
	return w.g.Add("Slice", []string{shape, w.ints(fmt.Sprint("axis", axis), axis), w.ints(fmt.Sprint("axis", axis+1), axis+1)}, x+".size")
}

// layer writes a layer of the decoder: attention to the ids, attention to the states
// of the encoder, and the feed-forward half.
func (v Whisper) layer(w *writer, i int, x, mask string) string {
	g, at := w.g, fmt.Sprintf(w.names.layer, i)
	y := w.norm(at+"self_attn_layer_norm", x, v.Width)
	keys := map[string]string{}
	for _, p := range [][2]string{{"key", "k_proj"}, {"value", "v_proj"}} {
		one := v.split(w, w.linear(at+"self_attn."+p[1], y, v.Width, v.Width))
		keys[p[0]] = g.Add("Concat", []string{cache(past, i, "decoder", p[0]), one}, cache(present, i, "decoder", p[0]), onnx.Int("axis", 2))
	}
	x = g.Add("Add", []string{x, v.attend(w, at+"self_attn.", y, keys["key"], keys["value"], mask)}, at+"attended")
	y = w.norm(at+"encoder_attn_layer_norm", x, v.Width)
	y = v.attend(w, at+"encoder_attn.", y, cache(past, i, "encoder", "key"), cache(past, i, "encoder", "value"), "")
	x = g.Add("Add", []string{x, y}, at+"crossed")
	y = w.activated(at+"act", w.linear(at+"fc1", w.norm(at+"final_layer_norm", x, v.Width), v.Width, v.hidden), v.encoder.Activation)
	return g.Add("Add", []string{x, w.linear(at+"fc2", y, v.hidden, v.Width)}, at+"fed")
}

// attend writes attention to keys and values.
func (v Whisper) attend(w *writer, at, x, keys, values, mask string) string {
	g := w.g
	q := v.split(w, w.linear(at+"q_proj", x, v.Width, v.Width))
	q = g.Add("Mul", []string{q, w.number("root", rsqrt(v.Width/v.heads))}, at+"query")
	scores := g.Add("MatMul", []string{q, g.Add("Transpose", []string{keys}, at+"keys", onnx.IntList("perm", 0, 1, 3, 2))}, at+"scores")
	if mask != "" {
		scores = g.Add("Add", []string{scores, mask}, at+"scores.masked")
	}
	shares := g.Add("Softmax", []string{scores}, at+"shares", onnx.Int("axis", -1))
	mixed := g.Add("Transpose", []string{g.Add("MatMul", []string{shares, values}, at+"mixed")}, at+"mixed.rows", onnx.IntList("perm", 0, 2, 1, 3))
	return w.linear(at+"out_proj", g.Add("Reshape", []string{mixed, w.ints("join", 1, -1, v.Width)}, at+"joined"), v.Width, v.Width)
}
