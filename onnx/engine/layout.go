package engine

import (
	"slices"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/conv"
	"mm-abi.org/mm/onnx/engine/image"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// laid is a value in the blocked layout.
type laid struct {
	slot           int
	channels, rank int // of the plain value
}

// layouter decides which values use the blocked layout. It starts at
// convolutions with constant weights, whose channels are known, and follows
// their results through operators that support blocked images; it converts a
// value back if another operator reads it.
type layouter struct {
	*body
	p       *Program
	kernels tensor.ConvKernels
	images  map[int]laid // by the slots of the plain values
	missing map[int]bool // plain values without a step that produces them
	steps   []*step
	readers []int // number of readers of constants; nil if subgraphs may read them
}

// layOut rewrites the steps of a body.
func (b *body) layOut(p *Program, main bool) error {
	l := layouter{body: b, p: p, kernels: tensor.BestConv(), images: make(map[int]laid), missing: make(map[int]bool)}
	if main && !slices.ContainsFunc(b.steps, func(st *step) bool { return len(st.subs) > 0 }) {
		j := joiner{body: b}
		j.count()
		l.readers = j.uses
	}
	for _, st := range b.steps {
		done, err := l.follow(st)
		if err != nil {
			return err
		}
		if done {
			continue
		}
		for _, slot := range st.in {
			l.plain(slot)
		}
		for _, sub := range st.subs {
			for _, c := range sub.captures {
				l.plain(c.outer)
			}
		}
		l.steps = append(l.steps, st)
	}
	for _, slot := range b.outputs {
		l.plain(slot)
	}
	b.steps = l.steps
	return nil
}

// plain makes a value available in the layout of the model.
func (l *layouter) plain(slot int) {
	if slot < 0 || !l.missing[slot] {
		return
	}
	delete(l.missing, slot)
	img := l.images[slot]
	l.steps = append(l.steps, &step{
		node: &onnx.Node{Op: "ToPlain"}, kernel: conv.ToPlain(img.channels),
		in: []int{img.slot}, out: []int{slot}, fixed: []bool{false},
	})
}

// blocks makes a value with the given channels available in the blocked layout.
func (l *layouter) blocks(slot, channels, rank int) int {
	if img, ok := l.images[slot]; ok {
		return img.slot
	}
	img := laid{l.keep(nil), channels, rank}
	l.images[slot] = img
	l.steps = append(l.steps, &step{
		node: &onnx.Node{Op: "ToBlocks"}, kernel: conv.Lay(channels),
		in: []int{slot}, out: []int{img.slot}, fixed: []bool{false},
	})
	return img.slot
}

// replace replaces st by a step whose result is blocked.
func (l *layouter) replace(st *step, run kernel.Func, in []int, channels, rank int) {
	img := laid{l.keep(nil), channels, rank}
	l.images[st.out[0]] = img
	l.missing[st.out[0]] = true
	fixed := make([]bool, len(in))
	for i, slot := range in {
		fixed[i] = slot < 0 || l.constant[slot] != nil
	}
	l.steps = append(l.steps, &step{node: st.node, kernel: run, in: in, out: []int{img.slot}, fixed: fixed, after: st.after, blocked: &img})
}

// follow converts a step to blocked images if possible.
func (l *layouter) follow(st *step) (bool, error) {
	if !single(st) || len(st.in) == 0 || len(st.subs) > 0 || st.after != nil && st.node.Op != "Conv" && st.node.Op != "ConvTranspose" {
		return false, nil
	}
	switch st.node.Op {
	case "Conv":
		return l.convolution(st)
	case "ConvTranspose":
		return l.transposed(st)
	}
	img, ok := l.images[st.in[0]]
	if !ok && len(st.in) == 2 && slices.Contains([]string{"Add", "Sub", "Mul", "Div", "Max", "Min"}, st.node.Op) {
		img, ok = l.images[st.in[1]]
	}
	if !ok {
		return false, nil
	}
	switch st.node.Op {
	case "Relu", "LeakyRelu", "HardSigmoid", "HardSwish", "Sigmoid", "Tanh", "Elu", "Abs", "Neg", "Exp", "Sqrt", "Erf", "Softplus", "Mish", "Gelu", "Swish", "Identity", "Clip":
		for _, slot := range st.in[1:] {
			if slot >= 0 && l.constant[slot] == nil {
				return false, nil
			}
		}
		l.replace(st, st.kernel, append([]int{img.slot}, st.in[1:]...), img.channels, img.rank)
	case "Add", "Sub", "Mul", "Div", "Max", "Min":
		return l.pair(st, img)
	case "MaxPool", "AveragePool":
		l.replace(st, image.BlockedPool, []int{img.slot}, img.channels, img.rank)
	case "GlobalAveragePool":
		l.replace(st, image.BlockedMean, []int{img.slot}, img.channels, img.rank)
	case "Resize", "Upsample":
		if !l.flat(st) {
			return false, nil
		}
		l.replace(st, image.BlockedResize, append([]int{img.slot}, st.in[1:]...), img.channels, img.rank)
	case "Concat":
		return l.concat(st, img), nil
	default:
		return false, nil
	}
	return true, nil
}

// pair converts arithmetic of two images, or of one and a constant.
func (l *layouter) pair(st *step, img laid) (bool, error) {
	if len(st.in) != 2 {
		return false, nil
	}
	in := make([]int, 2)
	for i, slot := range st.in {
		if slot < 0 {
			return false, nil
		}
		if other, ok := l.images[slot]; ok {
			if other.channels != img.channels || other.rank != img.rank {
				return false, nil
			}
			in[i] = other.slot
			continue
		}
		a := l.constant[slot]
		if a == nil || a.Type != onnx.FLOAT || a.Rank() > img.rank {
			return false, nil
		}
		per := a.Len() == img.channels
		for k, d := range a.Shape {
			per = per && (d == 1 || img.rank-a.Rank()+k == 1)
		}
		shape := []int{1}
		switch {
		case a.Len() == 1:
		case per:
			shape = []int{1, conv.Blocks(img.channels, l.kernels.Lanes())}
			for range img.rank - 2 {
				shape = append(shape, 1)
			}
			shape = append(shape, l.kernels.Lanes())
		default:
			return false, nil
		}
		c, err := l.p.arena.Zeros(onnx.FLOAT, shape...)
		if err != nil {
			return false, err
		}
		copy(kernel.Elements[float32](c), kernel.Elements[float32](a))
		in[i] = l.keep(c)
	}
	kernel := st.kernel
	if st.node.Op == "Mul" {
		kernel = conv.Scale(kernel)
	}
	l.replace(st, kernel, in, img.channels, img.rank)
	return true, nil
}

// flat reports whether a Resize leaves batch and channels unchanged.
func (l *layouter) flat(st *step) bool {
	at := 2
	if st.node.Op == "Upsample" || l.p.opset < 11 {
		at = 1
	}
	if len(st.in) != at+1 || st.in[at] < 0 {
		return false
	}
	for _, a := range st.node.Attributes {
		if a.Name == "axes" || a.Name == "antialias" && a.Int != 0 || string(a.String) == "cubic" || string(a.String) == "tf_crop_and_resize" {
			return false
		}
	}
	scales := l.constant[st.in[at]]
	if scales == nil || scales.Type != onnx.FLOAT || scales.Len() < 3 {
		return false
	}
	v := kernel.Elements[float32](scales)
	return v[0] == 1 && v[1] == 1
}

// concat converts a Concat of images by channels.
func (l *layouter) concat(st *step, first laid) bool {
	axis := int64(0)
	for _, a := range st.node.Attributes {
		if a.Name == "axis" {
			axis = a.Int
		}
	}
	if axis != 1 && axis != int64(1-first.rank) {
		return false
	}
	var in, channels []int
	all := 0
	for _, slot := range st.in {
		img, ok := l.images[slot]
		if !ok || img.rank != first.rank {
			return false
		}
		in, channels, all = append(in, img.slot), append(channels, img.channels), all+img.channels
	}
	l.replace(st, conv.Concat(channels), in, all, first.rank)
	return true
}

// convolution converts a Conv with constant weights.
func (l *layouter) convolution(st *step) (bool, error) {
	if len(st.in) < 2 || st.in[0] < 0 || st.in[1] < 0 {
		return false, nil
	}
	w := l.constant[st.in[1]]
	if w == nil || w.Type != onnx.FLOAT || w.Rank() < 3 || w.Rank() > 4 || w.Len() == 0 {
		return false, nil
	}
	s := conv.Spec{Out: w.Shape[0], Groups: 1, Kernel: [2]int{1, w.Dim(-1)}}
	if w.Rank() == 4 {
		s.Kernel[0] = w.Shape[2]
	}
	for _, a := range st.node.Attributes {
		if a.Name == "group" {
			if a.Int < 1 || a.Int > int64(s.Out) {
				return false, nil
			}
			s.Groups = int(a.Int)
		}
	}
	s.In = w.Shape[1] * s.Groups
	bias, ok := l.bias(st, s.Out)
	if !ok {
		return false, nil
	}
	img, ok := l.images[st.in[0]]
	if ok && (img.channels != s.In || img.rank != w.Rank()) {
		return false, nil
	}
	s.Plain = !ok && s.Groups == 1 && s.In < l.kernels.Lanes()
	if !s.Fits(l.kernels) {
		return false, nil
	}
	f, err := conv.NewFilter(l.kernels, s, kernel.Elements[float32](w), bias, l.room)
	if err != nil {
		return false, err
	}
	l.packed(st.in[1])
	in := st.in[0]
	if !s.Plain {
		in = l.blocks(in, s.In, w.Rank())
	}
	l.replace(st, image.Convolution(f, w.Rank()), []int{in}, s.Out, w.Rank())
	return true, nil
}

// packed releases weights without readers.
func (l *layouter) packed(slot int) {
	if l.readers == nil {
		return
	}
	if l.readers[slot]--; l.readers[slot] == 0 {
		l.p.arena.Discard(l.constant[slot])
		l.constant[slot] = nil
	}
}

// room allocates memory for packed weights.
func (l *layouter) room(n int) ([]float32, error) {
	if err := l.p.arena.Keep(4 * int64(n)); err != nil {
		return nil, err
	}
	return make([]float32, n), nil
}

// bias returns a convolution's constant bias, nil for none.
func (l *layouter) bias(st *step, n int) ([]float32, bool) {
	if len(st.in) < 3 || st.in[2] < 0 {
		return nil, true
	}
	a := l.constant[st.in[2]]
	if a == nil || a.Type != onnx.FLOAT || a.Len() != n {
		return nil, false
	}
	return kernel.Elements[float32](a), true
}

// transposed converts a ConvTranspose with constant weights whose windows are
// adjacent.
func (l *layouter) transposed(st *step) (bool, error) {
	if len(st.in) < 2 || st.in[0] < 0 || st.in[1] < 0 {
		return false, nil
	}
	w := l.constant[st.in[1]]
	if w == nil || w.Type != onnx.FLOAT || w.Rank() < 3 || w.Rank() > 4 || w.Len() == 0 {
		return false, nil
	}
	window := [2]int{1, w.Dim(-1)}
	if w.Rank() == 4 {
		window[0] = w.Shape[2]
	}
	strides := []int64{1, 1}[:w.Rank()-2]
	for _, a := range st.node.Attributes {
		each := int64(1) // the required value of an attribute's numbers
		switch a.Name {
		case "strides":
			strides = a.Ints
			continue
		case "kernel_shape":
			continue
		case "group":
			if a.Int == 1 {
				continue
			}
			return false, nil
		case "auto_pad":
			if s := string(a.String); s == "NOTSET" || s == "VALID" {
				continue
			}
			return false, nil
		case "pads", "output_padding":
			each = 0
		case "dilations":
		default:
			return false, nil
		}
		if slices.ContainsFunc(a.Ints, func(v int64) bool { return v != each }) {
			return false, nil
		}
	}
	for i, v := range strides {
		if len(strides) != w.Rank()-2 || v != int64(w.Shape[2+i]) {
			return false, nil
		}
	}
	channels := w.Shape[1]
	bias, ok := l.bias(st, channels)
	img, blocked := l.images[st.in[0]]
	if !ok || blocked && (img.channels != w.Shape[0] || img.rank != w.Rank()) {
		return false, nil
	}
	t, err := conv.NewTransposed(l.kernels, w.Shape[0], channels, window, kernel.Elements[float32](w), bias, l.room)
	if err != nil {
		return false, err
	}
	l.packed(st.in[1])
	in, kernelOf := l.blocks(st.in[0], w.Shape[0], w.Rank()), image.Transposition(t, w.Rank())
	if t.Plain() {
		l.steps = append(l.steps, &step{node: st.node, kernel: kernelOf, in: []int{in}, out: []int{st.out[0]}, fixed: []bool{false}, after: st.after})
		return true, nil
	}
	l.replace(st, kernelOf, []int{in}, channels, w.Rank())
	return true, nil
}
