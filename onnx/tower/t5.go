package tower

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/onnx"
)

// T5 is an encoder-decoder of text: the sizes of its config.json.
type T5 struct {
	Width    int // d_model
	dim      int // of a head
	heads    int
	hidden   int
	layers   int // of the encoder
	decoder  int // layers of the decoder
	buckets  int
	distance int
	Vocab    int
	gated    bool
	act      string
	scale    bool // scores are divided by √Width
	epsilon  float32
}

// Limits of relative positions.
const (
	maxBuckets  = 1 << 10
	maxDistance = 1 << 13
)

// T5Families returns the values of model_type that [ReadT5] reads.
func T5Families() []string { return []string{"t5", "mt5", "umt5"} }

// ReadT5 reads the config.json of a T5 model.
func ReadT5(data []byte) (T5, error) {
	var raw struct {
		Type     string   `json:"model_type"`
		Width    *int     `json:"d_model"`
		Dim      *int     `json:"d_kv"`
		Heads    *int     `json:"num_heads"`
		Hidden   *int     `json:"d_ff"`
		Layers   *int     `json:"num_layers"`
		Decoder  *int     `json:"num_decoder_layers"`
		Buckets  *int     `json:"relative_attention_num_buckets"`
		Distance *int     `json:"relative_attention_max_distance"`
		Vocab    *int     `json:"vocab_size"`
		Proj     *string  `json:"feed_forward_proj"`
		Epsilon  *float32 `json:"layer_norm_epsilon"`
		Tied     *bool    `json:"tie_word_embeddings"`
		Scale    *bool    `json:"scale_decoder_outputs"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return T5{}, err
	}
	if !slices.Contains(T5Families(), raw.Type) {
		return T5{}, fmt.Errorf("unsupported model_type %.64q, want %s", raw.Type, strings.Join(T5Families(), ", "))
	}
	proj, scaled, vocab := "relu", or(raw.Tied, true), 32128
	if raw.Type != "t5" { // the defaults of mT5
		proj, scaled, vocab = "gated-gelu", false, 250112
	}
	proj = or(raw.Proj, proj)
	c := T5{
		Width: or(raw.Width, 512), dim: or(raw.Dim, 64), heads: or(raw.Heads, 8), hidden: or(raw.Hidden, 2048), layers: or(raw.Layers, 6),
		buckets: or(raw.Buckets, 32), distance: or(raw.Distance, 128), Vocab: or(raw.Vocab, vocab), epsilon: or(raw.Epsilon, 1e-6),
		scale: or(raw.Scale, scaled), gated: strings.HasPrefix(proj, "gated-"), act: strings.TrimPrefix(proj, "gated-"),
	}
	c.decoder = or(raw.Decoder, c.layers)
	if c.act == "gelu_new" || c.gated && c.act == "gelu" {
		c.act = "gelu_pytorch_tanh"
	}
	return c, c.check()
}

// check validates the sizes.
func (v T5) check() error {
	if err := inRange([]bounded{
		{"d_model", v.Width, maxWidth}, {"d_kv", v.dim, maxWidth}, {"num_heads", v.heads, maxWidth}, {"d_ff", v.hidden, maxHidden},
		{"num_layers", v.layers, maxLayers}, {"num_decoder_layers", v.decoder, maxLayers}, {"vocab_size", v.Vocab, maxVocab},
		{"relative_attention_num_buckets", v.buckets, maxBuckets}, {"relative_attention_max_distance", v.distance, maxDistance},
	}); err != nil {
		return err
	}
	switch {
	case v.heads*v.dim > maxHidden:
		return fmt.Errorf("got %d heads of %d numbers, want at most %d numbers", v.heads, v.dim, maxHidden)
	case v.buckets%4 != 0 || v.distance <= v.buckets/2:
		return fmt.Errorf("unsupported relative positions: got %d buckets for a distance of %d, want a multiple of 4 and at most twice the distance", v.buckets, v.distance)
	case v.act != "relu" && !knownActivation(v.act):
		return fmt.Errorf("unsupported feed_forward_proj %.64q", v.act)
	case !(v.epsilon > 0 && v.epsilon < 1):
		return fmt.Errorf("got layer_norm_epsilon %g, want a number between 0 and 1", v.epsilon)
	}
	return nil
}

// writer returns a writer of a part.
func (v T5) writer(t Weights, part string) *writer {
	m := onnx.New(part, opset)
	return &writer{c: Config{rms: true, Epsilon: v.epsilon}, t: t, m: m, g: &m.Graph, tower: part + ".", written: map[string]bool{}}
}

// Encoder writes the encoder: ids to states, and the keys and values of the states
// for each layer of the decoder.
func (v T5) Encoder(t Weights) (m *onnx.Model, err error) {
	w := v.writer(t, "encoder")
	defer w.halted(&m, &err)
	g := w.g
	g.Inputs = []onnx.Value{onnx.TensorValue(inputIDs, onnx.INT64, 1, "ids")}
	g.Outputs = []onnx.Value{onnx.TensorValue(hiddenState, onnx.FLOAT, 1, "ids", v.Width)}
	x := g.Add("Gather", []string{w.constant(t.find("", "shared.weight", "encoder.embed_tokens.weight"), v.Vocab, v.Width), inputIDs}, "embedded")
	count := w.size(inputIDs, 1)
	bias := ""
	for i := range v.layers {
		at := fmt.Sprintf("encoder.block.%d.layer.", i)
		if i == 0 || t.has(at+"0.SelfAttention.relative_attention_bias.weight") {
			bias = v.bias(w, at+"0.SelfAttention.", count, count, w.ints("none", 0))
		}
		y := w.norm(at+"0.layer_norm", x, v.Width)
		keys, values := v.heading(w, at+"0.SelfAttention.k", y), v.heading(w, at+"0.SelfAttention.v", y)
		x = g.Add("Add", []string{x, v.attend(w, at+"0.SelfAttention.", y, keys, values, bias)}, at+"attended")
		x = v.feed(w, at+"1.", x)
	}
	x = g.Add("Identity", []string{w.norm("encoder.final_layer_norm", x, v.Width)}, hiddenState)
	for i := range v.decoder {
		for _, p := range [][2]string{{"key", "k"}, {"value", "v"}} {
			out := cache(present, i, "encoder", p[0])
			g.Add("Identity", []string{v.heading(w, fmt.Sprintf("decoder.block.%d.layer.1.EncDecAttention.%s", i, p[1]), x)}, out)
			g.Outputs = append(g.Outputs, onnx.TensorValue(out, onnx.FLOAT, 1, v.heads, "ids", v.dim))
		}
	}
	return w.m, w.err
}

// Decoder writes the decoder: ids after those of the cache, which may be empty, to
// the scores of the next one.
func (v T5) Decoder(t Weights) (m *onnx.Model, err error) {
	w := v.writer(t, "decoder")
	defer w.halted(&m, &err)
	g := w.g
	g.Inputs = []onnx.Value{onnx.TensorValue(inputIDs, onnx.INT64, 1, "ids")}
	g.Outputs = []onnx.Value{onnx.TensorValue(logits, onnx.FLOAT, 1, 1, v.Vocab)}
	w.caches(v.decoder, v.heads, v.dim, "source")
	shared := t.find("", "shared.weight", "decoder.embed_tokens.weight")
	table := w.floats("words", transpose(w.read(shared, v.Vocab, v.Width), v.Vocab, v.Width), v.Width, v.Vocab)
	x := g.Add("Transpose", []string{g.Add("Gather", []string{table, inputIDs}, "ids.columns", onnx.Int("axis", 1))}, "embedded", onnx.IntList("perm", 1, 2, 0))
	from := w.size(cache(past, 0, "decoder", "key"), 2)
	fresh := w.size(inputIDs, 1)
	to := g.Add("Add", []string{from, fresh}, "to")
	bias := ""
	for i := range v.decoder {
		at := fmt.Sprintf("decoder.block.%d.layer.", i)
		if i == 0 || t.has(at+"0.SelfAttention.relative_attention_bias.weight") {
			bias = v.bias(w, at+"0.SelfAttention.", fresh, to, from)
		}
		y := w.norm(at+"0.layer_norm", x, v.Width)
		keys, values := w.grown(i, "key", v.heading(w, at+"0.SelfAttention.k", y)), w.grown(i, "value", v.heading(w, at+"0.SelfAttention.v", y))
		x = g.Add("Add", []string{x, v.attend(w, at+"0.SelfAttention.", y, keys, values, bias)}, at+"attended")
		y = w.norm(at+"1.layer_norm", x, v.Width)
		y = v.attend(w, at+"1.EncDecAttention.", y, cache(past, i, "encoder", "key"), cache(past, i, "encoder", "value"), "")
		x = v.feed(w, at+"2.", g.Add("Add", []string{x, y}, at+"crossed"))
	}
	x = g.Add("Slice", []string{w.norm("decoder.final_layer_norm", x, v.Width), w.ints("last", -1), w.ints("end", math.MaxInt32), w.ints("columns", 1)}, "last")
	if v.scale {
		x = g.Add("Mul", []string{x, w.number("root", rsqrt(v.Width))}, "last.scaled")
	}
	if t.has("lm_head.weight") {
		table = w.floats("scores", transpose(w.read("lm_head.weight", v.Vocab, v.Width), v.Vocab, v.Width), v.Width, v.Vocab)
	}
	g.Add("MatMul", []string{x, table}, logits)
	return w.m, w.err
}

// caches writes the inputs and outputs of keys and values of a decoder.
func (w *writer) caches(layers, heads, dim int, source any) {
	g := w.g
	for i := range layers {
		for _, what := range []string{"key", "value"} {
			g.Inputs = append(g.Inputs, onnx.TensorValue(cache(past, i, "decoder", what), onnx.FLOAT, 1, heads, "past", dim),
				onnx.TensorValue(cache(past, i, "encoder", what), onnx.FLOAT, 1, heads, source, dim))
			g.Outputs = append(g.Outputs, onnx.TensorValue(cache(present, i, "decoder", what), onnx.FLOAT, 1, heads, "total", dim))
		}
	}
}

// grown appends keys or values to those of the cache.
func (w *writer) grown(layer int, what, x string) string {
	return w.g.Add("Concat", []string{cache(past, layer, "decoder", what), x}, cache(present, layer, "decoder", what), onnx.Int("axis", 2))
}

// heading writes a product whose heads are split.
func (v T5) heading(w *writer, name, x string) string {
	y := w.g.Add("Reshape", []string{w.linear(name, x, v.Width, v.heads*v.dim), w.ints("split", 1, -1, v.heads, v.dim)}, name+".split")
	return w.g.Add("Transpose", []string{y}, name+".heads", onnx.IntList("perm", 0, 2, 1, 3))
}

// attend writes attention to keys and values. The scores are not scaled.
func (v T5) attend(w *writer, at, x, keys, values, bias string) string {
	g := w.g
	turned := g.Add("Transpose", []string{keys}, at+"keys", onnx.IntList("perm", 0, 1, 3, 2))
	scores := g.Add("MatMul", []string{v.heading(w, at+"q", x), turned}, at+"scores")
	if bias != "" {
		scores = g.Add("Add", []string{scores, bias}, at+"scores.biased")
	}
	shares := g.Add("Softmax", []string{scores}, at+"shares", onnx.Int("axis", -1))
	mixed := g.Add("Transpose", []string{g.Add("MatMul", []string{shares, values}, at+"mixed")}, at+"mixed.rows", onnx.IntList("perm", 0, 2, 1, 3))
	return w.linear(at+"o", g.Add("Reshape", []string{mixed, w.ints("join", 1, -1, v.heads*v.dim)}, at+"joined"), v.heads*v.dim, v.Width)
}

// feed writes the feed-forward half of a layer.
func (v T5) feed(w *writer, at, x string) string {
	g := w.g
	y, in := w.norm(at+"layer_norm", x, v.Width), at+"DenseReluDense."
	if v.gated {
		gate := w.activated(in+"act", w.linear(in+"wi_0", y, v.Width, v.hidden), v.act)
		y = g.Add("Mul", []string{gate, w.linear(in+"wi_1", y, v.Width, v.hidden)}, in+"gated")
	} else {
		y = w.activated(in+"act", w.linear(in+"wi", y, v.Width, v.hidden), v.act)
	}
	return g.Add("Add", []string{x, w.linear(in+"wo", y, v.hidden, v.Width)}, at+"fed")
}

// bias writes the addend of the scores of rows positions that begin at from, for
// columns positions that begin at 0: 1×heads×rows×columns. In a decoder, it masks
// later positions.
func (v T5) bias(w *writer, at, rows, columns, from string) string {
	g := w.g
	causal := strings.HasPrefix(at, "decoder.")
	weight := w.read(at+"relative_attention_bias.weight", v.buckets, v.heads)
	after := v.distance
	if causal {
		after = 1
	}
	values := make([]float32, 0, (v.distance+after+1)*v.heads)
	for d := -v.distance; d <= after; d++ {
		if causal && d > 0 {
			values = append(values, slices.Repeat([]float32{-math.MaxFloat32}, v.heads)...)
			continue
		}
		b := v.bucket(d, causal)
		values = append(values, weight[b*v.heads:(b+1)*v.heads]...)
	}
	name := at + "bias"
	table := w.floats(name+".table", values, v.distance+after+1, v.heads)
	row := g.Add("Add", []string{w.range1(name+".row", rows), from}, name+".rows")
	row = g.Add("Reshape", []string{row, w.ints("rows", -1, 1)}, name+".rows.column")
	shift := g.Add("Sub", []string{w.range1(name+".column", columns), row}, name+".distance")
	shift = g.Add("Max", []string{shift, w.ints("least", -v.distance)}, name+".distance.least")
	shift = g.Add("Min", []string{shift, w.ints(fmt.Sprint("most.", after), after)}, name+".distance.most")
	index := g.Add("Add", []string{shift, w.ints("distance", v.distance)}, name+".index")
	found := g.Add("Gather", []string{table, index}, name+".found") // rows×columns×heads
	found = g.Add("Transpose", []string{found}, name+".heads", onnx.IntList("perm", 2, 0, 1))
	return g.Add("Unsqueeze", []string{found, w.ints("none", 0)}, name)
}

// range1 writes the numbers from 0 to a count of one dimension.
func (w *writer) range1(name, count string) string {
	n := w.g.Add("Squeeze", []string{count, w.ints("none", 0)}, name+".count")
	w.scalar("zero", 0)
	w.scalar("step", 1)
	return w.g.Add("Range", []string{"shape.scalar.zero", n, "shape.scalar.step"}, name+".range")
}

// scalar writes an integer without dimensions, once.
func (w *writer) scalar(name string, v int64) {
	name = "shape.scalar." + name
	if !w.written[name] {
		w.written[name] = true
		w.g.Constant(onnx.Ints(name, nil, []int64{v}))
	}
}

// bucket returns the bucket of a distance, key minus query, as in transformers: near
// distances have one each, far ones share them on a logarithmic scale.
func (v T5) bucket(distance int, causal bool) int {
	n, first := v.buckets, 0
	if causal {
		distance = max(-distance, 0)
	} else {
		n /= 2
		if distance > 0 {
			first = n
		} else {
			distance = -distance
		}
	}
	exact := n / 2
	if distance < exact {
		return first + distance
	}
	share := float32(math.Log(float64(float32(distance) / float32(exact))))
	share = share / float32(math.Log(float64(v.distance)/float64(exact))) * float32(n-exact)
	return first + min(exact+int(share), n-1)
}
