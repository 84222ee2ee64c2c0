// Package sentence writes the text encoders of Hugging Face transformers as ONNX
// models: from token ids to the vector of each text, or to the scores of a
// classifier such as a reranker.
//
// [ReadConfig] reads config.json, [ReadPooling] the further files of a model of
// sentence-transformers, and [Config.Model] writes the model. GGUF files of llama.cpp
// are read as the same settings and weights ([ReadGGUF]).
//
// Letters: N texts of T tokens, C the width of the states.
package sentence

import (
	"fmt"
	"math"
	"strings"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
)

// opset is the version of ai.onnx: the first with LayerNormalization.
const opset = 17

// Names of the inputs and outputs of the models.
const (
	IDs       = "input_ids"      // N×T, int64
	Mask      = "attention_mask" // N×T, int64, 1 for a token and 0 for padding
	Segments  = "token_type_ids" // N×T, int64; only of a classifier of two segments
	Embedding = "embedding"      // N×D, float
	Scores    = "scores"         // N×labels, float
)

// Weights are the tensors of a model, by the names of transformers.
type Weights interface {
	Has(name string) bool
	// Floats returns a tensor of the given dimensions, outermost first.
	Floats(name string, dims ...int) ([]float32, error)
	// Raw returns the elements of a tensor of the type and dimensions, or nil.
	Raw(name string, t tensor.Type, dims ...int) []byte
}

// Two reports whether the model distinguishes two segments of a text.
func (c *Config) Two() bool { return c.Labels > 0 && c.types > 1 }

// Model writes the model. The pooling is not used by a classifier.
func (c Config) Model(t Weights, p Pooling) (m *onnx.Model, err error) {
	w := newWriter(c, t)
	defer w.halted(&m, &err)
	g := w.g
	g.Inputs = []onnx.Value{onnx.TensorValue(IDs, onnx.INT64, "N", "T"), onnx.TensorValue(Mask, onnx.INT64, "N", "T")}
	if c.Two() {
		g.Inputs = append(g.Inputs, onnx.TensorValue(Segments, onnx.INT64, "N", "T"))
	}
	mask := g.Add("Cast", []string{Mask}, "mask", onnx.Int("to", int64(onnx.FLOAT)))
	if c.joint != nil {
		w.joint(mask)
		return w.m, w.err
	}
	w.length = g.Add("Slice", []string{g.Add("Shape", []string{IDs}, "shape"), w.ints("one", 1), w.ints("two", 2)}, "length.T")
	x := w.embed()
	w.attend(mask)
	for i := range c.Layers {
		x = w.layer(i, x)
	}
	if c.names.last != "" {
		x = w.norm(w.at0(c.names.last), x)
	}
	if c.Labels > 0 {
		g.Outputs = []onnx.Value{onnx.TensorValue(Scores, onnx.FLOAT, "N", c.Labels)}
		w.classify(x, mask)
		return w.m, w.err
	}
	g.Outputs = []onnx.Value{onnx.TensorValue(Embedding, onnx.FLOAT, "N", p.Size(c.Width))}
	g.Add("Identity", []string{w.pool(p, x, mask)}, Embedding)
	return w.m, w.err
}

// at0 returns a name with the model's prefix.
func (w *writer) at0(name string) string { return w.prefix + name }

// embed writes the states of the tokens at their positions.
func (w *writer) embed() string {
	c, g, n := w.c, w.g, w.c.names
	x := g.Add("Gather", []string{w.table(w.at0(n.words), c.Vocab, c.Width), w.ids}, "words", onnx.Int("axis", 0))
	if w.half {
		x = g.Add("Cast", []string{x}, "words.float", onnx.Int("to", int64(onnx.FLOAT)))
	}
	var types []float32
	if n.types != "" && c.types > 0 {
		types = w.read(w.at0(n.types)+".weight", c.types, c.Width)
	}
	if n.positions != "" {
		rows := w.read(w.at0(n.positions)+".weight", c.Positions+c.offset, c.Width)[c.offset*c.Width:]
		if types != nil && !c.Two() { // all tokens have the first type
			rows = append([]float32{}, rows...)
			for i := range rows {
				rows[i] += types[i%c.Width]
			}
		}
		table := w.floats("positions", rows, c.Positions, c.Width)
		at := g.Add("Slice", []string{table, w.ints("zero", 0), w.length, w.ints("zero", 0)}, "positions.used")
		x = g.Add("Add", []string{x, at}, "placed")
	}
	if types != nil && n.positions == "" && !c.Two() {
		x = g.Add("Add", []string{x, w.floats("types.first", types[:c.Width], c.Width)}, "typed.first")
	}
	if c.Two() {
		of := g.Add("Gather", []string{w.floats("types", types, c.types, c.Width), Segments}, "types.used", onnx.Int("axis", 0))
		x = g.Add("Add", []string{x, of}, "typed")
	}
	if n.norm == "" {
		return x
	}
	return w.norm(w.at0(n.norm), x)
}

// attend writes the summand of the scores of attention: nothing for a token, a
// large negative number for padding; the bias of relative positions; the limit of a
// window.
func (w *writer) attend(mask string) {
	c, g := w.c, w.g
	away := g.Add("Sub", []string{mask, w.number("unit", 1)}, "mask.away") // 0 or -1
	away = g.Add("Mul", []string{away, w.number("most", -float64(never))}, "mask.bias")
	w.all = g.Add("Unsqueeze", []string{away, w.ints("middle", 1, 2)}, "mask.all")
	square := func(name, table string) string {
		from := w.ints("corner", 0, 0)
		to := g.Add("Concat", []string{w.length, w.length}, name+".to", onnx.Int("axis", 0))
		return g.Add("Slice", []string{table, from, to, w.ints("square", 2, 3)}, name+".used")
	}
	if c.relative > 0 {
		bias := w.read(w.at0(c.names.relative)+".weight", c.relative, c.Heads)
		w.all = g.Add("Add", []string{square("relative", w.floats("relative", spread(bias, c.relative, c.Heads, c.Positions), 1, c.Heads, c.Positions, c.Positions)), w.all}, "relative.all")
	}
	if c.period > 1 {
		// |i - j| ≤ window/2, from the positions of this run.
		order := g.Add("Range", []string{w.scalar("from", 0), g.Add("Squeeze", []string{w.length}, "length.one"), w.scalar("step", 1)}, "order")
		order = g.Add("Cast", []string{order}, "order.float", onnx.Int("to", int64(onnx.FLOAT)))
		rows, cols := g.Add("Unsqueeze", []string{order, w.ints("one", 1)}, "order.rows"), g.Add("Unsqueeze", []string{order, w.ints("zero", 0)}, "order.cols")
		far := g.Add("Abs", []string{g.Add("Sub", []string{rows, cols}, "order.difference")}, "order.distance")
		beyond := g.Add("Cast", []string{g.Add("Greater", []string{far, w.number("window", float64(c.window/2))}, "window.beyond")}, "window.far", onnx.Int("to", int64(onnx.FLOAT)))
		beyond = g.Add("Mul", []string{beyond, w.number("lost", float64(never))}, "window.bias")
		w.near = g.Add("Max", []string{g.Add("Add", []string{beyond, w.all}, "window.sum"), w.number("lost", float64(never))}, "window.all")
	}
}

// never is added to scores that have no share.
const never = -1e30

// spread returns the bias of each head for each pair of positions, as T5 and MPNet
// assign distances to buckets.
func spread(bias []float32, buckets, heads, n int) []float32 {
	out := make([]float32, heads*n*n)
	half := buckets / 2
	exact := half / 2
	for i := range n {
		for j := range n {
			bucket, d := 0, i-j
			if d < 0 {
				bucket, d = half, -d
			}
			if d < exact {
				bucket += d
			} else {
				far := exact + int(float32(math.Log(float64(d)/float64(exact)))/float32(math.Log(128/float64(exact)))*float32(half-exact))
				bucket += min(far, half-1)
			}
			for h := range heads {
				out[(h*n+i)*n+j] = bias[bucket*heads+h]
			}
		}
	}
	return out
}

// layer writes norm(x + attention(x)), followed by norm(x + mlp(x)), or with the norms
// before the halves.
func (w *writer) layer(i int, x string) string {
	c, n := w.c, w.c.names
	at := w.at0(fmt.Sprintf(n.layer, i))
	if c.before {
		y := x
		if i > 0 || w.t.Has(at+n.norm1+".weight") {
			y = w.norm(at+n.norm1, x)
		}
		x = w.g.Add("Add", []string{x, w.attention(i, at, y)}, at+"attended")
		return w.g.Add("Add", []string{x, w.feed(at, w.norm(at+n.norm2, x))}, at+"fed")
	}
	x = w.norm(at+n.norm1, w.g.Add("Add", []string{w.attention(i, at, x), x}, at+"attended"))
	return w.norm(at+n.norm2, w.g.Add("Add", []string{w.feed(at, x), x}, at+"fed"))
}

// feed writes the feed-forward half.
func (w *writer) feed(at, x string) string {
	c, g, n := w.c, w.g, w.c.names
	if !c.gated {
		return w.linear(at+n.down, w.activated(at+"act", w.linear(at+n.up, x, c.Width, c.Hidden), c.Activation), c.Hidden, c.Width)
	}
	if n.gate != "" {
		gate := w.activated(at+"act", w.linear(at+n.gate, x, c.Width, c.Hidden), c.Activation)
		return w.linear(at+n.down, g.Add("Mul", []string{gate, w.linear(at+n.up, x, c.Width, c.Hidden)}, at+"gated.out"), c.Hidden, c.Width)
	}
	y := w.linear(at+n.up, x, c.Width, 2*c.Hidden)
	part := func(name string, from, to int) string {
		return g.Add("Slice", []string{y, w.ints(name+".from", from), w.ints(name+".to", to), w.ints("two", 2)}, at+name)
	}
	first, second := part("gated", 0, c.Hidden), part("gate", c.Hidden, 2*c.Hidden)
	if c.last {
		first, second = second, first
	}
	gate := w.activated(at+"act", first, c.Activation)
	return w.linear(at+n.down, g.Add("Mul", []string{gate, second}, at+"gated.out"), c.Hidden, c.Width)
}

// attention writes the attention of every position.
func (w *writer) attention(i int, at, x string) string {
	c, g, n := w.c, w.g, w.c.names
	dim := c.Width / c.Heads
	split, join := w.ints("split", 0, 0, c.Heads, dim), w.ints("join", 0, 0, c.Width)
	project := func(name string, part int) string {
		if n.joined == "" {
			return w.linear(at+name, x, c.Width, c.Width)
		}
		return w.rows(at+n.joined, part, x)
	}
	heads := func(name string, part int, perm ...int64) string {
		y := g.Add("Reshape", []string{project(name, part), split}, fmt.Sprint(at, "split.", part))
		y = g.Add("Transpose", []string{y}, fmt.Sprint(at, "heads.", part), onnx.IntList("perm", perm...))
		if c.rotary && part < 2 {
			y = w.rotate(fmt.Sprint(at, "rotated.", part), y, i)
		}
		return y
	}
	q, k, v := heads(n.query, 0, 0, 2, 1, 3), heads(n.key, 1, 0, 2, 1, 3), heads(n.value, 2, 0, 2, 1, 3)
	k = g.Add("Transpose", []string{k}, at+"keys", onnx.IntList("perm", 0, 1, 3, 2))
	scores := g.Add("MatMul", []string{q, k}, at+"scores")
	scores = g.Add("Mul", []string{scores, w.number("root", 1/math.Sqrt(float64(dim)))}, at+"scores.scaled")
	bias := w.all
	if !c.everywhere(i) {
		bias = w.near
	}
	if bias != "" {
		scores = g.Add("Add", []string{scores, bias}, at+"scores.biased")
	}
	shares := g.Add("Softmax", []string{scores}, at+"shares", onnx.Int("axis", -1))
	mixed := g.Add("Transpose", []string{g.Add("MatMul", []string{shares, v}, at+"mixed")}, at+"mixed.rows", onnx.IntList("perm", 0, 2, 1, 3))
	return w.linear(at+n.out, g.Add("Reshape", []string{mixed, join}, at+"joined"), c.Width, c.Width)
}

// rotate writes the rotation of heads [N,H,T,D] by their positions: the first half of
// a head with the second.
func (w *writer) rotate(at, x string, layer int) string {
	c, g := w.c, w.g
	half := c.Width / c.Heads / 2
	cos, sin := w.angles(layer)
	part := func(name string, from, to int) string {
		return g.Add("Slice", []string{x, w.ints(name+".head.from", from), w.ints(name+".head.to", to), w.ints("three", 3)}, at+"."+name)
	}
	a, b := part("low", 0, half), part("high", half, 2*half)
	turned := g.Add("Concat", []string{g.Add("Neg", []string{b}, at+".negative"), a}, at+".turned", onnx.Int("axis", -1))
	return g.Add("Add", []string{g.Add("Mul", []string{x, cos}, at+".cos"), g.Add("Mul", []string{turned, sin}, at+".sin")}, at)
}

// angles returns the cosines and sines of the positions in use, [T,D].
func (w *writer) angles(layer int) (cos, sin string) {
	theta, dim := w.c.theta(layer), w.c.Width/w.c.Heads
	name := fmt.Sprintf("angles.%g", theta)
	if !w.written[name] {
		w.written[name] = true
		turns := make([]float32, dim)
		for i := range turns {
			turns[i] = float32(1 / math.Pow(theta, float64(2*(i%(dim/2)))/float64(dim)))
		}
		g := w.g
		order := w.once("order.positions", func() string {
			n := g.Add("Squeeze", []string{w.length}, "order.count")
			at := g.Add("Range", []string{w.scalar("from", 0), n, w.scalar("step", 1)}, "order.range")
			at = g.Add("Cast", []string{at}, "order.numbers", onnx.Int("to", int64(onnx.FLOAT)))
			return g.Add("Unsqueeze", []string{at, w.ints("one", 1)}, "order.positions")
		})
		turn := g.Add("Mul", []string{order, w.floats(name+".turns", turns, 1, dim)}, name)
		g.Add("Cos", []string{turn}, name+".cos")
		g.Add("Sin", []string{turn}, name+".sin")
	}
	return name + ".cos", name + ".sin"
}

// classify writes the scores of the labels.
func (w *writer) classify(x, mask string) {
	c, g, n := w.c, w.g, w.c.names
	y := ""
	if c.pooled == "mean" {
		y = w.pool(Pooling{Modes: []string{"mean"}}, x, mask)
	} else {
		y = w.at(x, "first")
	}
	for _, name := range n.head {
		if c.Family == "modernbert" {
			if name == "head.norm" {
				y = w.norm(name, y)
				continue
			}
			y = w.activated("head.act", w.linear(name, y, c.Width, c.Width), c.Activation)
			continue
		}
		if strings.HasPrefix(name, "pooler.") {
			name = w.at0(name)
		}
		act := map[string]string{"electra": "gelu", "distilbert": "relu"}[c.Family]
		if act == "" {
			act = "tanh"
		}
		y = w.activated("head.act", w.linear(name, y, c.Width, c.Width), act)
	}
	y = w.linear(n.label, y, c.Width, c.Labels)
	if c.Sigmoid {
		y = g.Add("Sigmoid", []string{y}, "scores.share")
	}
	g.Add("Identity", []string{y}, Scores)
}
