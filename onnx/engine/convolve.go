package engine

import (
	"math"
	"slices"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// convolutions fuses operators into the convolutions that they follow, and uses
// the blocked layout for the images between convolutions if that is faster on
// this machine.
func (b *body) convolutions(p *Program, main bool) error {
	j := joiner{body: b, opset: p.opset}
	j.join()
	if err := j.bake(&p.arena); err != nil {
		return err
	}
	if tensor.ConvLanes() == 0 {
		return nil
	}
	if err := b.layOut(p, main); err != nil {
		return err
	}
	j = joiner{body: b, opset: p.opset, sums: true}
	j.join()
	return nil
}

// affine is a scale and a shift of each channel.
type affine struct{ scale, shift []float64 }

// joiner visits the steps of a body and drops those that it fuses into the
// preceding convolution.
type joiner struct {
	*body
	opset int64
	sums  bool // only fuse sums of blocked images and the steps that follow them
	uses  []int
	maker map[int]*step // of the values so far
	dead  map[*step]bool
}

// join fuses normalizations by constants, activations and sums into the
// convolutions that they follow.
func (j *joiner) join() {
	j.count()
	j.maker, j.dead = make(map[int]*step), make(map[*step]bool)
	var kept []*step
	for _, st := range j.steps {
		j.pads(st)
		if conv := j.into(st); conv != nil {
			conv.out[0] = st.out[0]
			j.maker[st.out[0]] = conv
			continue
		}
		if conv := j.sum(st); conv != nil { // it runs at the position of the sum
			conv.out[0] = st.out[0]
			kept = slices.DeleteFunc(kept, func(s *step) bool { return s == conv })
			st = conv
		}
		for _, slot := range st.out {
			if slot >= 0 {
				j.maker[slot] = st
			}
		}
		kept = append(kept, st)
	}
	j.steps = slices.DeleteFunc(kept, func(s *step) bool { return j.dead[s] })
}

// count counts the readers of each value.
func (j *joiner) count() {
	j.uses = make([]int, j.slots)
	for _, st := range j.steps {
		for _, slot := range st.in {
			if slot >= 0 {
				j.uses[slot]++
			}
		}
		for _, sub := range st.subs {
			for _, c := range sub.captures {
				j.uses[c.outer]++
			}
		}
	}
	for _, slot := range j.outputs {
		j.uses[slot]++
	}
}

// single reports a step of one output.
func single(st *step) bool {
	return len(st.out) > 0 && st.out[0] >= 0 && !slices.ContainsFunc(st.out[1:], func(slot int) bool { return slot >= 0 })
}

// before returns the convolution that produces a value with the given number of
// uses.
func (j *joiner) before(slot, uses int) *step {
	if slot < 0 || j.uses[slot] != uses {
		return nil
	}
	st := j.maker[slot]
	if st == nil || j.dead[st] || st.node.Op != "Conv" && (st.node.Op != "ConvTranspose" || j.sums) {
		return nil
	}
	if j.sums && st.blocked == nil {
		return nil
	}
	return st
}

// into fuses a step into a convolution and returns the convolution; nil if
// impossible.
func (j *joiner) into(st *step) *step {
	if !single(st) || len(st.in) == 0 {
		return nil
	}
	if conv := j.hard(st); conv != nil {
		return conv
	}
	for i, slot := range st.in {
		conv := j.before(slot, 1)
		if conv == nil {
			continue
		}
		if j.activate(st, conv) || j.number(st, conv, i) || !j.sums && (j.normalize(st, conv) || j.perChannel(st, conv, i)) {
			return conv
		}
	}
	return nil
}

// attribute returns a numeric attribute of a node.
func attribute(n *onnx.Node, name string, absent float32) float32 {
	for i := range n.Attributes {
		if n.Attributes[i].Name == name {
			return n.Attributes[i].Float
		}
	}
	return absent
}

// rank returns the number of dimensions of a convolution's result, or fewer if
// it is unknown.
func (j *joiner) rank(conv *step) int {
	if conv.blocked != nil {
		return conv.blocked.rank
	}
	if w := j.constant[conv.in[1]]; w != nil {
		return w.Rank()
	}
	return 3
}

// scalar returns a constant of a single number, of at most rank dimensions, so
// that broadcasting does not change the other operand's shape.
func (j *joiner) scalar(slot, rank int) (float32, bool) {
	if slot < 0 || j.constant[slot] == nil {
		return 0, false
	}
	a := j.constant[slot]
	if a.Type != onnx.FLOAT || a.Len() != 1 || a.Rank() > rank {
		return 0, false
	}
	return kernel.Elements[float32](a)[0], true
}

var infinity = float32(math.Inf(1))

// bounds returns the bounds of a Relu, or of a Clip with constant bounds.
func (j *joiner) bounds(st *step) (low, high float32, ok bool) {
	switch {
	case st.node.Op == "Relu":
		return 0, infinity, true
	case st.node.Op != "Clip":
		return 0, 0, false
	case j.opset < 11:
		return attribute(st.node, "min", -math.MaxFloat32), attribute(st.node, "max", math.MaxFloat32), true
	}
	low, high = -infinity, infinity
	for i := 1; i < len(st.in); i++ {
		if st.in[i] < 0 {
			continue
		}
		v, ok := j.scalar(st.in[i], kernel.MaxRank)
		if !ok {
			return 0, 0, false
		}
		if i == 1 {
			low = v
		} else {
			high = v
		}
	}
	return low, high, low <= high
}

// activate joins an activation to a convolution that has none.
func (j *joiner) activate(st, conv *step) bool {
	if conv.after != nil || st.in[0] != conv.out[0] {
		return false
	}
	if low, high, ok := j.bounds(st); ok {
		conv.after = &kernel.After{Low: low, High: high}
		return true
	}
	s := tensor.Shaper{Low: 0, High: 1, Scale: 1}
	switch st.node.Op {
	case "HardSigmoid":
		s.A, s.B = attribute(st.node, "alpha", 0.2), attribute(st.node, "beta", 0.5)
	case "HardSwish":
		s.A, s.B, s.Form = 1./6, 0.5, tensor.ShapeTimes
	case "LeakyRelu":
		s.A, s.Low, s.High, s.Form = attribute(st.node, "alpha", 0.01), -infinity, infinity, tensor.ShapePeak
		if !(s.A >= 0 && s.A <= 1) {
			return false
		}
	default:
		return false
	}
	conv.after = &kernel.After{Low: -infinity, High: infinity, Shape: &s}
	return true
}

// hard fuses x·HardSigmoid(x) into the convolution that produces x; the sigmoid
// is one node, or a sum and a Clip.
func (j *joiner) hard(st *step) *step {
	if st.node.Op != "Mul" || len(st.in) != 2 {
		return nil
	}
	for i := range 2 {
		conv := j.before(st.in[i], 2)
		if conv == nil || conv.after != nil {
			continue
		}
		t := j.maker[st.in[1-i]]
		if t == nil || t == conv || !single(t) || j.uses[t.out[0]] != 1 {
			continue
		}
		s := tensor.Shaper{A: 1, Low: 0, High: 1, Scale: 1, Form: tensor.ShapeTimes}
		if t.node.Op == "HardSigmoid" {
			s.A, s.B = attribute(t.node, "alpha", 0.2), attribute(t.node, "beta", 0.5)
			if t.in[0] != conv.out[0] {
				continue
			}
			j.dead[t] = true
		} else {
			low, high, ok := j.bounds(t)
			add := j.maker[t.in[0]]
			if !ok || add == nil || add.node.Op != "Add" || len(add.in) != 2 || j.uses[t.in[0]] != 1 {
				continue
			}
			k := slices.Index(add.in, conv.out[0])
			if k < 0 {
				continue
			}
			v, ok := j.scalar(add.in[1-k], j.rank(conv))
			if !ok {
				continue
			}
			s.B, s.Low, s.High = v, low, high
			j.dead[t], j.dead[add] = true, true
		}
		conv.after = &kernel.After{Low: -infinity, High: infinity, Shape: &s}
		return conv
	}
	return nil
}

// number fuses arithmetic with one constant number into a convolution with an
// activation.
func (j *joiner) number(st, conv *step, at int) bool {
	if conv.after == nil || len(st.in) != 2 {
		return false
	}
	v, ok := j.scalar(st.in[1-at], j.rank(conv))
	if !ok {
		return false
	}
	a := conv.after
	scale, shift := float32(1), float32(0)
	switch st.node.Op {
	case "Mul":
		scale = v
	case "Div":
		if at != 0 || v == 0 {
			return false
		}
		scale = 1 / v
	case "Add":
		shift = v
	case "Sub":
		if at != 0 {
			return false
		}
		shift = -v
	case "Max": // max(x, A·x, v): a lower bound of A·x
		if s := a.Shape; s != nil && s.Form == tensor.ShapePeak && s.Scale == 1 && s.Shift == 0 && s.High == infinity {
			s.Low = max(s.Low, v)
			return true
		}
		return false
	default:
		return false
	}
	if a.Shape == nil {
		a.Shape = &tensor.Shaper{A: 1, Low: a.Low, High: a.High, Scale: 1}
		a.Low, a.High = -infinity, infinity
	}
	a.Shape.Scale *= scale
	a.Shape.Shift = a.Shape.Shift*scale + shift
	return true
}

// filters returns the constant weights of a convolution, the number of its
// output channels, and their dimension in the weights; nil if the weights are
// not constant.
func (j *joiner) filters(conv *step) (weights *kernel.Array, channels, dim int) {
	if len(conv.in) < 2 || conv.in[1] < 0 { // invalid; refused when the operator is prepared
		return nil, 0, 0
	}
	weights = j.constant[conv.in[1]]
	if weights == nil || weights.Type != onnx.FLOAT || weights.Rank() < 3 {
		return nil, 0, 0
	}
	if conv.node.Op == "ConvTranspose" {
		for _, a := range conv.node.Attributes {
			if a.Name == "group" && a.Int != 1 {
				return nil, 0, 0
			}
		}
		dim = 1
	}
	if len(conv.in) > 2 && conv.in[2] >= 0 {
		if bias := j.constant[conv.in[2]]; bias == nil || bias.Type != onnx.FLOAT || bias.Len() != weights.Shape[dim] {
			return nil, 0, 0
		}
	}
	return weights, weights.Shape[dim], dim
}

// scaled multiplies and shifts the result of a convolution for each channel.
func (j *joiner) scaled(conv *step, n int, scale, shift func(k int) float64) {
	if conv.channels == nil {
		conv.channels = &affine{make([]float64, n), make([]float64, n)}
		for k := range n {
			conv.channels.scale[k] = 1
		}
	}
	c := conv.channels
	for k := range n {
		a := scale(k)
		c.scale[k] *= a
		c.shift[k] = c.shift[k]*a + shift(k)
	}
}

// perChannel fuses arithmetic with a constant of one number for each channel,
// or for all, into a convolution without an activation.
func (j *joiner) perChannel(st, conv *step, at int) bool {
	weights, n, _ := j.filters(conv)
	if weights == nil || conv.after != nil || len(st.in) != 2 || n == 0 {
		return false
	}
	slot := st.in[1-at]
	if slot < 0 || j.constant[slot] == nil || j.constant[slot].Type != onnx.FLOAT {
		return false
	}
	a, rank := j.constant[slot], weights.Rank()
	if a.Rank() > rank {
		return false
	}
	for i, d := range a.Shape {
		if k := rank - a.Rank() + i; d != 1 && (k != 1 || d != n) {
			return false
		}
	}
	v := kernel.Elements[float32](a)
	of := func(k int) float64 { return float64(v[k%len(v)]) }
	one, zero := func(int) float64 { return 1 }, func(int) float64 { return 0 }
	switch {
	case st.node.Op == "Mul":
		j.scaled(conv, n, of, zero)
	case st.node.Op == "Add":
		j.scaled(conv, n, one, of)
	case st.node.Op == "Sub" && at == 0:
		j.scaled(conv, n, one, func(k int) float64 { return -of(k) })
	case st.node.Op == "Div" && at == 0 && !slices.Contains(v, 0):
		j.scaled(conv, n, func(k int) float64 { return 1 / of(k) }, zero)
	default:
		return false
	}
	return true
}

// normalize fuses a BatchNormalization by constants into a convolution without
// an activation.
func (j *joiner) normalize(st, conv *step) bool {
	weights, n, _ := j.filters(conv)
	if st.node.Op != "BatchNormalization" || len(st.in) != 5 || st.in[0] != conv.out[0] || weights == nil || conv.after != nil {
		return false
	}
	var p [4][]float32 // scale, shift, mean, variance
	for i, slot := range st.in[1:] {
		if slot < 0 || j.constant[slot] == nil || j.constant[slot].Type != onnx.FLOAT || j.constant[slot].Len() != n {
			return false
		}
		p[i] = kernel.Elements[float32](j.constant[slot])
	}
	eps := attribute(st.node, "epsilon", 1e-5)
	a := func(k int) float64 { return float64(p[0][k]) / math.Sqrt(float64(p[3][k])+float64(eps)) }
	j.scaled(conv, n, a, func(k int) float64 { return float64(p[1][k]) - float64(p[2][k])*a(k) })
	return true
}

// bake multiplies the scales and shifts of channels into weights and biases.
func (j *joiner) bake(arena *kernel.Arena) error {
	for _, st := range j.steps {
		c := st.channels
		if c == nil {
			continue
		}
		st.channels = nil
		weights, n, dim := j.filters(st)
		w, err := arena.New(onnx.FLOAT, weights.Shape...)
		if err != nil {
			return err
		}
		bias, err := arena.New(onnx.FLOAT, n)
		if err != nil {
			return err
		}
		inner := 1
		for _, d := range weights.Shape[dim+1:] {
			inner *= d
		}
		for i, v := range kernel.Elements[float32](weights) {
			kernel.Elements[float32](w)[i] = float32(float64(v) * c.scale[i/inner%n])
		}
		for k := range n {
			v := c.shift[k]
			if len(st.in) > 2 && st.in[2] >= 0 {
				v += float64(kernel.Elements[float32](j.constant[st.in[2]])[k]) * c.scale[k]
			}
			kernel.Elements[float32](bias)[k] = float32(v)
		}
		st.in, st.fixed = []int{st.in[0], j.keep(w), j.keep(bias)}, []bool{st.fixed[0], true, true}
	}
	return nil
}

// sum fuses a sum of two blocked images into the convolution that produces one
// of them, the later one if both are results of convolutions.
func (j *joiner) sum(st *step) *step {
	if !j.sums || st.node.Op != "Add" || st.blocked == nil || len(st.in) != 2 || !single(st) {
		return nil
	}
	for _, i := range []int{1, 0} {
		conv := j.before(st.in[i], 1)
		if conv == nil || conv.after != nil || len(conv.in) != 1 || j.constant[st.in[1-i]] != nil {
			continue
		}
		conv.in, conv.fixed = append(conv.in, st.in[1-i]), append(conv.fixed, false)
		return conv
	}
	return nil
}
