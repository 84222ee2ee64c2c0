package engine

import (
	"math"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/arith"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/layers"
	"mm-abi.org/mm/onnx/engine/op"
)

// fuser replaces several steps by one: the chains that exporters write for a
// layer norm, GELU or SiLU, a product with its bias and activation, a
// transposition and the product that reads it, and two consecutive
// transpositions.
type fuser struct {
	*body
	opset int64
	uses  []int
	maker map[int]*step
	dead  map[*step]bool
}

// fuse visits the steps once, in order: the result of one fusion may be part of
// a longer chain.
func (b *body) fuse(p *Program) {
	j := joiner{body: b}
	j.count()
	f := fuser{b, p.opset, j.uses, make(map[int]*step), make(map[*step]bool)}
	for i, st := range b.steps {
		for _, change := range []func(*step) *step{f.silu, f.gelu, f.layerNorm, f.transposes} {
			if fused := change(st); fused != nil {
				st = fused
				b.steps[i] = st
			}
		}
		f.transposed(st)
		if fused := f.attention(st); fused != nil {
			st = fused
			b.steps[i] = st
		}
		if f.bias(st) || f.activation(st) {
			f.dead[st] = true
			continue
		}
		for _, slot := range st.out {
			if slot >= 0 {
				f.maker[slot] = st
			}
		}
	}
	b.steps = slices.DeleteFunc(b.steps, func(st *step) bool { return f.dead[st] })
}

// from returns the step of the named operator that produces a value with the
// given number of uses; nil otherwise.
func (f *fuser) from(slot, uses int, name string) *step {
	if slot < 0 || f.uses[slot] != uses {
		return nil
	}
	if st := f.maker[slot]; st != nil && !f.dead[st] && st.node.Op == name && single(st) {
		return st
	}
	return nil
}

// number returns the constant in a slot if it is a single float32.
func (f *fuser) number(slot int) (float64, bool) {
	if slot < 0 || f.constant[slot] == nil || f.constant[slot].Type != onnx.FLOAT || f.constant[slot].Len() != 1 {
		return 0, false
	}
	return float64(kernel.Elements[float32](f.constant[slot])[0]), true
}

// near reports whether a slot holds the given number, to the precision with
// which exporters write it.
func (f *fuser) near(slot int, want float64) bool {
	v, ok := f.number(slot)
	return ok && math.Abs(v-want) <= 1e-4*math.Abs(want)
}

// row reports whether a slot holds a constant row of more than one float32.
func (f *fuser) row(slot int) bool {
	return slot >= 0 && f.constant[slot] != nil && f.constant[slot].Type == onnx.FLOAT && f.constant[slot].Rank() == 1 && f.constant[slot].Len() > 1
}

// become returns the step that replaces a chain ending with end; the rest of
// the chain is dropped.
func (f *fuser) become(end *step, n *onnx.Node, in []int, rest ...*step) *step {
	n.Name = end.node.Name
	for range in {
		n.Inputs = append(n.Inputs, "")
	}
	kernel, err := op.Find(n, f.opset)
	if err != nil {
		return nil
	}
	fused := &step{node: n, kernel: kernel, in: in, out: end.out, subs: make(map[string]*body)}
	for _, st := range append(rest, end) {
		f.dead[st] = true
		for _, slot := range st.in {
			if slot >= 0 {
				f.uses[slot]--
			}
		}
	}
	for _, slot := range in {
		f.uses[slot]++
		fused.fixed = append(fused.fixed, f.constant[slot] != nil)
	}
	return fused
}

// pair tries both orders of a step's two inputs.
func pair(st *step, name string, try func(a, b int) *step) *step {
	if st.node.Op != name || len(st.in) != 2 || !single(st) {
		return nil
	}
	if fused := try(st.in[0], st.in[1]); fused != nil {
		return fused
	}
	return try(st.in[1], st.in[0])
}

// silu matches x·σ(x).
func (f *fuser) silu(st *step) *step {
	return pair(st, "Mul", func(x, s int) *step {
		sigmoid := f.from(s, 1, "Sigmoid")
		if sigmoid == nil {
			return nil
		}
		if sigmoid.in[0] == x {
			return f.become(st, &onnx.Node{Op: "Swish"}, []int{x}, sigmoid)
		}
		times := f.from(sigmoid.in[0], 1, "Mul") // some write σ(1·x)
		if times == nil || times.in[0] != x || !f.near(times.in[1], 1) {
			return nil
		}
		return f.become(st, &onnx.Node{Op: "Swish"}, []int{x}, sigmoid, times)
	})
}

// gelu matches x·½·(1 + erf(x/√2)), in any order of the factors.
func (f *fuser) gelu(st *step) *step {
	if st.node.Op != "Mul" || !single(st) || len(st.in) != 2 {
		return nil
	}
	var rest []*step
	factors := slices.Clone(st.in)
	for i, slot := range st.in {
		if inner := f.from(slot, 1, "Mul"); inner != nil && len(factors) == 2 {
			factors = append([]int{st.in[1-i]}, inner.in...)
			rest = append(rest, inner)
		}
	}
	if len(factors) != 3 {
		return nil
	}
	for i, slot := range factors {
		plus := f.from(slot, 1, "Add")
		if plus == nil {
			continue
		}
		a, b := factors[(i+1)%3], factors[(i+2)%3]
		if f.near(a, 0.5) {
			a, b = b, a
		}
		if !f.near(b, 0.5) {
			return nil
		}
		erf := f.from(plus.in[0], 1, "Erf")
		if erf == nil || !f.near(plus.in[1], 1) {
			if erf = f.from(plus.in[1], 1, "Erf"); erf == nil || !f.near(plus.in[0], 1) {
				return nil
			}
		}
		scaled, by := f.from(erf.in[0], 1, "Div"), math.Sqrt2
		if scaled == nil {
			scaled, by = f.from(erf.in[0], 1, "Mul"), math.Sqrt2/2
		}
		if scaled == nil || scaled.in[0] != a || !f.near(scaled.in[1], by) {
			return nil
		}
		return f.become(st, &onnx.Node{Op: "Gelu"}, []int{a}, append(rest, plus, erf, scaled)...)
	}
	return nil
}

// layerNorm matches (x - mean)/√(mean of squares + ε)·gain + bias over the last
// dimension.
func (f *fuser) layerNorm(st *step) *step {
	return pair(st, "Add", func(product, bias int) *step {
		scaled := f.from(product, 1, "Mul")
		if scaled == nil || !f.row(bias) {
			return nil
		}
		quotient, gain := scaled.in[0], scaled.in[1]
		if !f.row(gain) {
			quotient, gain = gain, quotient
		}
		over := f.from(quotient, 1, "Div")
		if over == nil || !f.row(gain) || f.constant[gain].Len() != f.constant[bias].Len() {
			return nil
		}
		centred, root := f.from(over.in[0], 2, "Sub"), f.from(over.in[1], 1, "Sqrt")
		if centred == nil || root == nil {
			return nil
		}
		plus := f.from(root.in[0], 1, "Add")
		if plus == nil {
			return nil
		}
		eps, ok := f.number(plus.in[1])
		variance := f.mean(plus.in[0])
		if !ok || variance == nil {
			return nil
		}
		square := f.from(variance.in[0], 1, "Pow")
		if square == nil || square.in[0] != over.in[0] || !f.near(square.in[1], 2) {
			return nil
		}
		mean := f.mean(centred.in[1])
		if mean == nil || mean.in[0] != centred.in[0] {
			return nil
		}
		n := &onnx.Node{Op: "LayerNormalization", Attributes: []onnx.Attribute{{Name: "epsilon", Float: float32(eps)}, {Name: "axis", Int: -1}}}
		return f.become(st, n, []int{centred.in[0], gain, bias}, scaled, over, centred, root, plus, variance, square, mean)
	})
}

// mean returns the step that computes the mean over the last dimension and
// keeps it.
func (f *fuser) mean(slot int) *step {
	st := f.from(slot, 1, "ReduceMean")
	if st == nil {
		return nil
	}
	axes := []int64{}
	for _, a := range st.node.Attributes {
		switch {
		case a.Name == "axes":
			axes = a.Ints
		case a.Name == "keepdims" && a.Int == 0:
			return nil
		}
	}
	if len(st.in) == 2 && st.in[1] >= 0 && f.constant[st.in[1]] != nil && f.constant[st.in[1]].Type == onnx.INT64 {
		axes = kernel.Elements[int64](f.constant[st.in[1]])
	}
	if len(axes) != 1 || axes[0] != -1 {
		return nil
	}
	return st
}

// transposes replaces two consecutive transpositions by one.
func (f *fuser) transposes(st *step) *step {
	outer := perm(st)
	if outer == nil || !single(st) {
		return nil
	}
	before := f.from(st.in[0], 1, "Transpose")
	if before == nil {
		return nil
	}
	inner := perm(before)
	if len(inner) != len(outer) {
		return nil
	}
	both := make([]int64, len(outer))
	for i, k := range outer {
		if k < 0 || int(k) >= len(inner) {
			return nil
		}
		both[i] = inner[k]
	}
	return f.become(st, &onnx.Node{Op: "Transpose", Attributes: []onnx.Attribute{{Name: "perm", Ints: both}}}, []int{before.in[0]}, before)
}

// perm returns the permutation of a transposition.
func perm(st *step) []int64 {
	if st.node.Op != "Transpose" {
		return nil
	}
	for _, a := range st.node.Attributes {
		if a.Name == "perm" {
			return a.Ints
		}
	}
	return nil
}

// transposed lets a product read its right factor transposed.
func (f *fuser) transposed(st *step) {
	if st.node.Op != "MatMul" || st.transposed {
		return
	}
	t := f.from(st.in[1], 1, "Transpose")
	if t == nil {
		return
	}
	p := perm(t)
	n := len(p)
	if n < 2 || p[n-1] != int64(n-2) || p[n-2] != int64(n-1) {
		return
	}
	for i, k := range p[:n-2] {
		if int64(i) != k {
			return
		}
	}
	f.dead[t] = true
	st.in[1], st.fixed[1], st.transposed = t.in[0], f.constant[t.in[0]] != nil, true
}

// product returns the step of a product with constant float32 weights whose
// result has one use and no activation yet.
func (f *fuser) product(slot int) *step {
	st := f.from(slot, 1, "MatMul")
	if st == nil {
		st = f.from(slot, 1, "Gemm")
	}
	if st == nil || st.then != nil {
		return nil
	}
	if w := f.constant[max(st.in[1], 0)]; st.in[1] < 0 || w == nil || w.Type != onnx.FLOAT || w.Rank() != 2 {
		return nil
	}
	return st
}

// attention matches softmax(q·kᵀ·scale + mask)·v, with optional scale and mask.
// Products with constant keys or values are kept, because their weights are
// packed once.
func (f *fuser) attention(st *step) *step {
	if st.node.Op != "MatMul" || st.transposed || len(st.in) != 2 || !single(st) || f.constant[st.in[1]] != nil {
		return nil
	}
	softmax := f.from(st.in[0], 1, "Softmax")
	if softmax == nil {
		return nil
	}
	rest, slot, mask, scale := []*step{softmax}, softmax.in[0], -1, 1.0
	if plus := f.from(slot, 1, "Add"); plus != nil {
		rest, slot, mask = append(rest, plus), plus.in[0], plus.in[1]
		if f.from(slot, 1, "MatMul") == nil && f.from(slot, 1, "Mul") == nil && f.from(slot, 1, "Div") == nil {
			slot, mask = mask, slot
		}
	}
	for _, name := range []string{"Mul", "Div"} {
		by := f.from(slot, 1, name)
		if by == nil {
			continue
		}
		v, ok := f.number(by.in[1])
		if !ok || name == "Div" && v == 0 {
			return nil
		}
		if scale = v; name == "Div" {
			scale = 1 / v
		}
		rest, slot = append(rest, by), by.in[0]
		break
	}
	scores := f.from(slot, 1, "MatMul")
	if scores == nil || len(scores.in) != 2 || scores.then != nil || f.constant[scores.in[1]] != nil {
		return nil
	}
	in := []int{scores.in[0], scores.in[1], st.in[1]}
	if mask >= 0 {
		in = append(in, mask)
	}
	n := &onnx.Node{Op: "Softmax", Attributes: softmax.node.Attributes} // an existing operator name
	fused := f.become(st, n, in[:1], append(rest, scores)...)
	if fused == nil {
		return nil
	}
	for _, slot := range in[1:] {
		f.uses[slot]++
		fused.in, fused.fixed = append(fused.in, slot), append(fused.fixed, f.constant[slot] != nil)
	}
	fused.node.Op, fused.kernel, fused.transposed = "Attention", layers.Attention(float32(scale)), scores.transposed
	return fused
}

// bias fuses the addition of a row into a product.
func (f *fuser) bias(st *step) bool {
	return pair(st, "Add", func(product, bias int) *step {
		m := f.product(product)
		if m == nil || m.node.Op != "MatMul" || len(m.in) != 2 || !f.row(bias) || f.constant[bias].Len() != f.constant[m.in[1]].Shape[1] {
			return nil
		}
		m.in, m.fixed = append(slices.Clone(m.in), bias), append(slices.Clone(m.fixed), true)
		f.maker[st.out[0]] = m
		m.out = st.out
		return m
	}) != nil
}

// activation fuses an elementwise function into the product before it.
func (f *fuser) activation(st *step) bool {
	if !single(st) || len(st.in) != 1 {
		return false
	}
	m := f.product(st.in[0])
	if m == nil {
		return false
	}
	if m.then = arith.Activation(st.node, f.opset); m.then == nil {
		return false
	}
	f.maker[st.out[0]] = m
	m.out = st.out
	return true
}
