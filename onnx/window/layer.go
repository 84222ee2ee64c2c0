package window

import (
	"fmt"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/onnx"
)

// layer writes one layer, x + attention(norm(x)) followed by the feed-forward
// half, and returns the name of the result.
func (w *writer) layer(i int, x string, last bool) (string, error) {
	at := arch.Block(i)
	normed, err := w.norm(at+"attn_norm", x)
	if err != nil {
		return "", err
	}
	attended, err := w.attention(i, normed)
	if err != nil {
		return "", err
	}
	x = w.g.Add("Add", []string{x, attended}, at+"attended")
	if normed, err = w.norm(at+"ffn_norm", x); err != nil {
		return "", err
	}
	fed, err := w.feedForward(at, normed)
	if err != nil {
		return "", err
	}
	out := at + "out"
	if last {
		out = Behind
	}
	return w.g.Add("Add", []string{x, fed}, out), nil
}

// norm is RMSNorm.
func (w *writer) norm(name, x string) (string, error) {
	t, ok := w.f.Tensor(name + ".weight")
	if !ok || t.Elements() != w.s.Width {
		return "", fmt.Errorf("missing %s.weight", name)
	}
	gain := make([]float32, w.s.Width)
	quant.Dequantize(gain, t.Data, t.Type)
	g := w.g
	square := g.Add("Mul", []string{x, x}, name+".square")
	mean := g.Add("ReduceMean", []string{square}, name+".mean", onnx.IntList("axes", -1), onnx.Int("keepdims", 1))
	root := g.Add("Sqrt", []string{g.Add("Add", []string{mean, "epsilon"}, name+".more")}, name+".root")
	unit := g.Add("Div", []string{x, root}, name+".unit")
	return g.Add("Mul", []string{unit, g.Constant(onnx.Floats(name+".weight", []int64{int64(w.s.Width)}, gain))}, name), nil
}

// rotated rotates the halves of each head by its position.
func (w *writer) rotated(x string) string {
	g := w.g
	a := g.Add("Slice", []string{x, "zero", "half", "last"}, x+".a")
	b := g.Add("Slice", []string{x, "half", "whole", "last"}, x+".b")
	part := func(op, name, p, by, q, with string) string {
		return g.Add(op, []string{g.Add("Mul", []string{p, by}, name+"1"), g.Add("Mul", []string{q, with}, name+"2")}, name)
	}
	return g.Add("Concat", []string{part("Sub", x+".c", a, "cos", b, "sin"), part("Add", x+".d", b, "cos", a, "sin")}, x+".turned", onnx.Int("axis", 3))
}

// attention writes the attention of each position to the earlier ones.
func (w *writer) attention(i int, x string) (string, error) {
	s, g, at := w.s, w.g, arch.Block(i)
	side := func(name, split string, count int, rotate bool) (string, error) {
		weight, err := w.weight(at+name+".weight", s.Width, w.heads(count, rotate))
		if err != nil {
			return "", err
		}
		y := g.Add("MatMul", []string{x, weight}, at+name)
		return g.Add("Transpose", []string{g.Add("Reshape", []string{y, split}, at+name+".split")}, at+name+".heads", onnx.IntList("perm", 0, 2, 1, 3)), nil
	}
	q, err := side("attn_q", "split", s.Heads, true)
	if err != nil {
		return "", err
	}
	k, err := side("attn_k", "split_kv", s.KVHeads, true)
	if err != nil {
		return "", err
	}
	v, err := side("attn_v", "split_kv", s.KVHeads, false)
	if err != nil {
		return "", err
	}
	q = g.Add("Mul", []string{w.rotated(q), "root"}, at+"attn_q.scaled")
	k, v = w.cached(i, w.rotated(k), v)
	mixed := w.product(at+"mixed", w.shares(at, q, k), v)
	rows := g.Add("Transpose", []string{mixed}, at+"mixed.rows", onnx.IntList("perm", 0, 2, 1, 3))
	joined := g.Add("Reshape", []string{rows, "join"}, at+"joined")
	weight, err := w.weight(at+"attn_output.weight", s.Heads*s.HeadDim, nil)
	return g.Add("MatMul", []string{joined, weight}, at+"attn_output"), err
}

// cached prepends the cached keys and values of earlier positions to those of
// layer i, which become outputs of the model. Without a window there is no
// cache.
func (w *writer) cached(i int, k, v string) (string, string) {
	if w.window == 0 {
		return k, v
	}
	all := func(past, now, layer string) string {
		shape := []any{1, w.s.KVHeads, w.window, w.s.HeadDim}
		w.g.Inputs = append(w.g.Inputs, onnx.TensorValue(past, onnx.FLOAT, shape...))
		shape[2] = w.t
		w.g.Outputs = append(w.g.Outputs, onnx.TensorValue(now, onnx.FLOAT, shape...))
		w.g.Add("Identity", []string{layer}, now)
		return w.g.Add("Concat", []string{past, layer}, now+".all", onnx.Int("axis", 2))
	}
	return all(PastKey(i), Key(i), k), all(PastValue(i), Value(i), v)
}

// shares writes the attention weights.
func (w *writer) shares(at, q, k string) string {
	g := w.g
	columns := g.Add("Transpose", []string{k}, at+"attn_k.columns", onnx.IntList("perm", 0, 1, 3, 2))
	seen := g.Add("Add", []string{w.product(at+"scores", q, columns), "mask"}, at+"seen")
	return g.Add("Softmax", []string{seen}, at+"shares", onnx.Int("axis", -1))
}

// product multiplies by query head and by head of keys and values; the query
// heads that share one are stacked meanwhile.
func (w *writer) product(name, x, y string) string {
	if w.s.Heads == w.s.KVHeads {
		return w.g.Add("MatMul", []string{x, y}, name)
	}
	x = w.g.Add("Reshape", []string{x, "shared"}, name+".shared")
	x = w.g.Add("MatMul", []string{x, y}, name+".product")
	return w.g.Add("Reshape", []string{x, "apart"}, name)
}

// feedForward writes SwiGLU.
func (w *writer) feedForward(at, x string) (string, error) {
	gate, err := w.weight(at+"ffn_gate.weight", w.s.Width, nil)
	if err != nil {
		return "", err
	}
	up, err := w.weight(at+"ffn_up.weight", w.s.Width, nil)
	if err != nil {
		return "", err
	}
	down, err := w.weight(at+"ffn_down.weight", w.s.Hidden, nil)
	if err != nil {
		return "", err
	}
	g := w.g
	gated := g.Add("MatMul", []string{x, gate}, at+"ffn_gate")
	silu := g.Add("Mul", []string{gated, g.Add("Sigmoid", []string{gated}, at+"ffn_gate.share")}, at+"ffn_silu")
	both := g.Add("Mul", []string{silu, g.Add("MatMul", []string{x, up}, at+"ffn_up")}, at+"ffn_both")
	return g.Add("MatMul", []string{both, down}, at+"ffn_down"), nil
}
