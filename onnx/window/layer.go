package window

import (
	"mm-abi.org/mm/core/gguf/arch"
)

// gateShift is the factor of one side of a gate: a product of two numbers below
// 1024 stays finite in 16-bit floats. The factor is in the weights, before and
// after, so that it is exact and free.
const gateShift = 1.0 / 16

// layer writes one layer, x + attention(norm(x)) followed by the feed-forward
// half, and returns the name of the result.
func (w *writer) layer(i int, x string, last bool) (string, error) {
	at := arch.Block(i)
	normed, err := w.before(at+"attn_norm", x)
	if err != nil {
		return "", err
	}
	attended, err := w.attention(i, normed)
	if err != nil {
		return "", err
	}
	second := at + "ffn_norm"
	if !w.style.PostNorm && !w.holds(second+".weight") { // its name in some architectures
		second = at + "post_attention_norm"
	}
	sum, err := w.join(x, attended, at+"post_attention_norm", at+"attended")
	if err != nil {
		return "", err
	}
	in := sum
	if w.s.Parallel {
		in = x
	}
	if !w.s.Parallel || !w.style.SharedInput {
		if normed, err = w.before(second, in); err != nil {
			return "", err
		}
	}
	fed, err := w.feedForward(at, normed)
	if err != nil {
		return "", err
	}
	out := at + "out"
	if last {
		out = Behind
	}
	if out, err = w.join(sum, fed, at+"post_ffw_norm", out); err != nil {
		return "", err
	}
	return out, w.unused(i)
}

// before writes the norm of an input, if the model has it.
func (w *writer) before(name, x string) (string, error) {
	if w.style.NoPreNorm {
		return x, nil
	}
	return w.norm(name, x)
}

// join adds y to the residual stream, normalized and scaled if the model does
// so.
func (w *writer) join(x, y, post, out string) (string, error) {
	var err error
	if w.style.PostNorm {
		if y, err = w.norm(post, y); err != nil {
			return "", err
		}
	}
	if w.s.ResidualScale != 0 {
		y = w.g.Add("Mul", []string{y, w.number("residual_scale", w.s.ResidualScale)}, y+".share")
	}
	return w.g.Add("Add", []string{x, y}, out), nil
}

// feedForward writes down(act(gate·x) ⊙ up·x), or down(act(up·x)).
func (w *writer) feedForward(at, x string) (string, error) {
	s := w.s
	down := matrix{as: at + "ffn_down", tensor: at + "ffn_down", in: s.Hidden, rows: rows(0, s.Width), all: s.Width}
	up := matrix{as: at + "ffn_up", tensor: at + "ffn_up", in: s.Width, rows: rows(0, s.Hidden), all: s.Hidden}
	if !w.style.Gated {
		y, err := w.product(x, up)
		if err != nil {
			return "", err
		}
		return w.product(w.activated(at+"ffn_act", y), down)
	}
	gate := up
	gate.as, gate.tensor = at+"ffn_gate", at+"ffn_gate"
	if !w.holds(gate.tensor + ".weight") { // both in one tensor
		gate.tensor = up.tensor
		up.rows, up.all, gate.all = rows(s.Hidden, s.Hidden), 2*s.Hidden, 2*s.Hidden
	}
	up.scale, up.bias, down.scale = gateShift, gateShift, 1/gateShift
	gated, err := w.product(x, gate)
	if err != nil {
		return "", err
	}
	wide, err := w.product(x, up)
	if err != nil {
		return "", err
	}
	both := w.g.Add("Mul", []string{w.activated(at+"ffn_act", gated), wide}, at+"ffn_both")
	return w.product(both, down)
}

// activated writes the activation. GELU with a tanh is exact beyond ±10, where
// the cube would become infinite in 16 bits.
func (w *writer) activated(name, x string) string {
	g := w.g
	switch w.s.Act() {
	case arch.GELU:
		share := g.Add("Erf", []string{g.Add("Div", []string{x, w.number("root_two", 1.4142135)}, name+".ratio")}, name+".erf")
		twice := g.Add("Mul", []string{x, g.Add("Add", []string{share, w.number("one", 1)}, name+".more")}, name+".twice")
		return g.Add("Mul", []string{twice, w.number("one_half", 0.5)}, name)
	case arch.ReLU:
		return g.Add("Relu", []string{x}, name)
	case arch.GELUTanh:
		near := g.Add("Clip", []string{x, w.number("gelu_low", -10), w.number("gelu_high", 10)}, name+".near")
		square := g.Add("Mul", []string{near, near}, name+".square")
		slope := g.Add("Add", []string{g.Add("Mul", []string{square, w.number("gelu_cube", 0.7978845608*0.044715)}, name+".cube"), w.number("gelu_slope", 0.7978845608)}, name+".slope")
		angle := g.Add("Tanh", []string{g.Add("Mul", []string{near, slope}, name+".angle")}, name+".tanh")
		half := w.number("one_half", 0.5)
		share := g.Add("Add", []string{g.Add("Mul", []string{angle, half}, name+".half"), half}, name+".share")
		return g.Add("Mul", []string{x, share}, name)
	}
	return g.Add("Mul", []string{x, g.Add("Sigmoid", []string{x}, name+".share")}, name)
}
