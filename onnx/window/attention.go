package window

import (
	"math"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/onnx"
)

// side describes queries, keys or values of a layer.
type side struct {
	name  string // attn_q, attn_k or attn_v
	first int    // row in a tensor of all three
	heads int
	cos   string // input of the rotation; empty: none
	sin   string
}

// attention writes the attention of each position to the visible ones.
func (w *writer) attention(i int, x string) (string, error) {
	s, g, at := w.s, w.g, arch.Block(i)
	cos, sin, mask := sidesOf(s, i, w.reach())
	queries, keys := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	q, err := w.heads(at, x, side{"attn_q", 0, s.Heads, cos, sin})
	if err != nil {
		return "", err
	}
	k, err := w.heads(at, x, side{"attn_k", queries, s.KVHeads, cos, sin})
	if err != nil {
		return "", err
	}
	v, err := w.heads(at, x, side{"attn_v", queries + keys, s.KVHeads, "", ""})
	if err != nil {
		return "", err
	}
	scale := s.AttentionScale
	if scale == 0 {
		scale = float32(1 / math.Sqrt(float64(s.HeadDim)))
	}
	q = g.Add("Mul", []string{q, w.number("root", scale)}, at+"attn_q.scaled")
	k, v = w.cached(i, k, v)
	mixed := w.byHead(at+"mixed", w.shares(at, q, k, mask), v)
	back := g.Add("Transpose", []string{mixed}, at+"mixed.rows", onnx.IntList("perm", 0, 2, 1, 3))
	joined := g.Add("Reshape", []string{back, w.ints("join", w.texts, w.t, queries)}, at+"joined")
	return w.product(joined, matrix{as: at + "attn_output", tensor: at + "attn_output", in: queries, rows: rows(0, s.Width), all: s.Width})
}

// heads writes one side, [1, heads, T, D]: a product, norms, rotation.
func (w *writer) heads(at, x string, of side) (string, error) {
	s, g := w.s, w.g
	name, n := at+of.name, of.heads*s.HeadDim
	m := matrix{as: name, tensor: name, in: s.Width, all: n}
	first := 0
	if fused := at + "attn_qkv"; w.holds(fused + ".weight") {
		m.tensor, m.all, first = fused, (s.Heads+2*s.KVHeads)*s.HeadDim, of.first
	}
	order := w.order(of)
	for _, row := range order {
		m.rows = append(m.rows, first+row)
	}
	y, err := w.product(x, m)
	if err != nil {
		return "", err
	}
	gain, err := w.gains(name+"_norm.weight", of, order)
	if err != nil {
		return "", err
	}
	if gain != nil && w.style.HeadNorm == arch.WholeHeadNorm {
		y, gain = w.normalized(name+"_norm", y, gain, nil, n), nil
	}
	shape := w.ints("split", w.texts, w.t, s.Heads, s.HeadDim)
	if of.heads != s.Heads {
		shape = w.ints("split_kv", w.texts, w.t, s.KVHeads, s.HeadDim)
	}
	y = g.Add("Transpose", []string{g.Add("Reshape", []string{y, shape}, name+".split")}, name+".heads", onnx.IntList("perm", 0, 2, 1, 3))
	switch {
	case gain == nil || w.style.Turned:
	case w.style.HeadNorm == arch.SharedNorm:
		y = w.normalized(name+"_norm", y, gain, nil, s.HeadDim)
	default:
		y = w.normalized(name+"_norm", y, gain, nil, of.heads, 1, s.HeadDim)
	}
	if of.cos != "" {
		y = w.rotated(name+".turned", y, of.cos, of.sin)
	}
	if gain != nil && w.style.Turned {
		y = w.normalized(name+"_norm", y, gain, nil, s.HeadDim)
	}
	return y, nil
}

// gains reads the gains of the norm of queries or keys, in the order of their
// rows; nil without a norm.
func (w *writer) gains(name string, of side, order []int) ([]float32, error) {
	n := len(order)
	if w.style.HeadNorm == arch.SharedNorm {
		n = w.s.HeadDim
	}
	x, err := w.vector(name, n)
	if x == nil || err != nil {
		return nil, err
	}
	out := make([]float32, n)
	for i := range out {
		out[i] = x[order[i]]
	}
	return out, nil
}

// order returns the order of the rows of a side: rotated pairs are half the
// rotated dimensions apart.
func (w *writer) order(of side) []int {
	d, turned := w.s.HeadDim, w.s.Rope.Dims
	var out []int
	for h := range of.heads {
		for i := range d {
			k := i
			if of.cos != "" && !w.s.Rope.Halves && i < turned {
				k = 2*(i%(turned/2)) + i/(turned/2)
			}
			out = append(out, h*d+k)
		}
	}
	return out
}

// rotated rotates the halves of the rotated dimensions of each head by its
// position.
func (w *writer) rotated(name, x, cos, sin string) string {
	g, turned := w.g, w.s.Rope.Dims
	last := w.ints("last", 3)
	half := w.ints("half", turned/2)
	a := g.Add("Slice", []string{x, w.ints("zero", 0), half, last}, name+".a")
	b := g.Add("Slice", []string{x, half, w.ints("turned", turned), last}, name+".b")
	part := func(op, name, p, by, q, with string) string {
		return g.Add(op, []string{g.Add("Mul", []string{p, by}, name+"1"), g.Add("Mul", []string{q, with}, name+"2")}, name)
	}
	parts := []string{part("Sub", name+".c", a, cos, b, sin), part("Add", name+".d", b, cos, a, sin)}
	if turned < w.s.HeadDim {
		parts = append(parts, g.Add("Slice", []string{x, w.ints("turned", turned), w.ints("whole", w.s.HeadDim), last}, name+".rest"))
	}
	return g.Add("Concat", parts, name, onnx.Int("axis", 3))
}

// cached prepends the cached keys and values of earlier positions to those of
// layer i, which become outputs of the model. Without a window, no layer has
// a cache.
func (w *writer) cached(i int, k, v string) (string, string) {
	if w.window == 0 {
		return k, v
	}
	all := func(past, now, layer string) string {
		shape := []any{w.texts, w.s.KVHeads, w.window, w.s.HeadDim}
		w.g.Inputs = append(w.g.Inputs, onnx.TensorValue(past, onnx.FLOAT, shape...))
		if w.grows {
			shape[2] = w.window + w.t
			w.g.Outputs = append(w.g.Outputs, onnx.TensorValue(now, onnx.FLOAT, shape...))
			return w.g.Add("Concat", []string{past, layer}, now, onnx.Int("axis", 2))
		}
		shape[2] = w.t
		w.g.Outputs = append(w.g.Outputs, onnx.TensorValue(now, onnx.FLOAT, shape...))
		w.g.Add("Identity", []string{layer}, now)
		return w.g.Add("Concat", []string{past, layer}, now+".all", onnx.Int("axis", 2))
	}
	return all(PastKey(i), Key(i), k), all(PastValue(i), Value(i), v)
}

// shares writes the attention weights.
func (w *writer) shares(at, q, k, mask string) string {
	g := w.g
	columns := g.Add("Transpose", []string{k}, at+"attn_k.columns", onnx.IntList("perm", 0, 1, 3, 2))
	scores := w.byHead(at+"scores", q, columns)
	if limit := w.s.AttentionCap; limit != 0 {
		scores = w.capped(scores, "attention", limit)
	}
	seen := g.Add("Add", []string{scores, mask}, at+"seen")
	return g.Add("Softmax", []string{seen}, at+"shares", onnx.Int("axis", -1))
}

// capped writes limit·tanh(x/limit).
func (w *writer) capped(x, what string, limit float32) string {
	share := w.g.Add("Tanh", []string{w.g.Add("Mul", []string{x, w.number(what+"_share", 1/limit)}, x+".part")}, x+".tanh")
	return w.g.Add("Mul", []string{share, w.number(what+"_cap", limit)}, x+".capped")
}

// byHead multiplies by query head and by head of keys and values; the query
// heads that share one are stacked meanwhile.
func (w *writer) byHead(name, x, y string) string {
	if w.s.Heads == w.s.KVHeads {
		return w.g.Add("MatMul", []string{x, y}, name)
	}
	x = w.g.Add("Reshape", []string{x, w.ints("shared", w.texts, w.s.KVHeads, w.s.Heads/w.s.KVHeads*w.t, -1)}, name+".shared")
	x = w.g.Add("MatMul", []string{x, y}, name+".product")
	return w.g.Add("Reshape", []string{x, w.ints("apart", w.texts, w.s.Heads, w.t, -1)}, name)
}
