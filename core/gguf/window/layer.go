package window

import (
	"fmt"

	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/onnx"
	"mm-abi.org/mm/core/quant"
)

// layer writes one layer: x + attention(norm(x)), and that + feedforward of its
// norm. It gives the name of the result.
func (w *writer) layer(i int, x string, last bool) (string, error) {
	at := arch.Block(i)
	normed, err := w.norm(at+"attn_norm", x)
	if err != nil {
		return "", err
	}
	attended, err := w.attention(at, normed)
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
		out = "hidden_out"
	}
	return w.g.Add("Add", []string{x, fed}, out), nil
}

// norm is RMSNorm.
func (w *writer) norm(name, x string) (string, error) {
	t, ok := w.f.Tensor(name + ".weight")
	if !ok || t.Elements() != w.s.Width {
		return "", fmt.Errorf("%s.weight is none", name)
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

// rotated turns the halves of each head by its position.
func (w *writer) rotated(x string) string {
	g := w.g
	a := g.Add("Slice", []string{x, "zero", "half", "last"}, x+".a")
	b := g.Add("Slice", []string{x, "half", "whole", "last"}, x+".b")
	part := func(op, name, p, by, q, with string) string {
		return g.Add(op, []string{g.Add("Mul", []string{p, by}, name+"1"), g.Add("Mul", []string{q, with}, name+"2")}, name)
	}
	return g.Add("Concat", []string{part("Sub", x+".c", a, "cos", b, "sin"), part("Add", x+".d", b, "cos", a, "sin")}, x+".turned", onnx.Int("axis", 3))
}

// attention gives each position what it sees of those before it.
func (w *writer) attention(at, x string) (string, error) {
	s, g := w.s, w.g
	side := func(name string, count int, rotate bool) (string, error) {
		weight, err := w.weight(at+name+".weight", s.Width, w.heads(count, rotate))
		if err != nil {
			return "", err
		}
		y := g.Add("MatMul", []string{x, weight}, at+name)
		return g.Add("Transpose", []string{g.Add("Reshape", []string{y, "split"}, at+name+".split")}, at+name+".heads", onnx.IntList("perm", 0, 2, 1, 3)), nil
	}
	q, err := side("attn_q", s.Heads, true)
	if err != nil {
		return "", err
	}
	k, err := side("attn_k", s.KVHeads, true)
	if err != nil {
		return "", err
	}
	v, err := side("attn_v", s.KVHeads, false)
	if err != nil {
		return "", err
	}
	q = g.Add("Mul", []string{w.rotated(q), "root"}, at+"attn_q.scaled")
	k = g.Add("Transpose", []string{w.rotated(k)}, at+"attn_k.columns", onnx.IntList("perm", 0, 1, 3, 2))
	seen := g.Add("Add", []string{g.Add("MatMul", []string{q, k}, at+"scores"), "mask"}, at+"seen")
	shares := g.Add("Softmax", []string{seen}, at+"shares", onnx.Int("axis", -1))
	mixed := g.Add("Transpose", []string{g.Add("MatMul", []string{shares, v}, at+"mixed")}, at+"mixed.rows", onnx.IntList("perm", 0, 2, 1, 3))
	joined := g.Add("Reshape", []string{mixed, "join"}, at+"joined")
	weight, err := w.weight(at+"attn_output.weight", s.Heads*s.HeadDim, nil)
	return g.Add("MatMul", []string{joined, weight}, at+"attn_output"), err
}

// feedForward is SwiGLU.
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
