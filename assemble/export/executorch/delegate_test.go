package executorch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/assemble/export"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/lower"
)

// numbers returns constants of a shape.
func numbers(shape ...int) *lower.Value {
	x := make([]float32, product(shape))
	for i := range x {
		x[i] = float32(i*i%23)/8 - 1
	}
	return &lower.Value{Name: "w", Shape: shape, Const: &lower.Const{Floats: x}}
}

func newRegion(precision string) *region {
	c := &converter{p: &Program{}, m: &Method{}, precision: precision, at: map[*lower.Value]int{}, scalars: map[any]int{}}
	return &region{c: c, narrow: map[*lower.Value]uint32{}, wide: map[*lower.Value]uint32{}, arguments: map[int]uint32{}}
}

// Weights of a product are outputs × inputs in a delegate, whichever way the graph has
// them.
func TestLinearDelegate(t *testing.T) {
	w := numbers(16, 8)
	turned := &lower.Value{Shape: []int{8, 16}, Const: &lower.Const{Floats: make([]float32, 128)}}
	for i := range 16 {
		for j := range 8 {
			turned.Const.Floats[j*16+i] = w.Const.Floats[i*8+j]
		}
	}
	x, y := &lower.Value{Shape: []int{1, 3, 8}}, &lower.Value{Shape: []int{1, 3, 16}}
	a := &lower.Node{Op: lower.MatMul, In: []*lower.Value{x, w}, Out: y, TransposeB: true}
	b := &lower.Node{Op: lower.MatMul, In: []*lower.Value{x, turned}, Out: y}
	for precision, want := range map[string][]byte{fp32: export.Float32s(w.Const.Floats), fp16: first(export.Float16s(w.Const.Floats)), int8s: first(export.Int8s(w.Const.Floats, w.Shape, 0))} {
		for _, n := range []*lower.Node{a, b} {
			r := newRegion(precision)
			r.c.at[x] = r.c.tensor(Float32, x.Shape)
			r.product(n)
			if !bytes.Equal(r.c.p.Named[0].Data, want) {
				t.Errorf("%s: weights differ", precision)
			}
		}
	}
	long := &lower.Node{Op: lower.MatMul, In: []*lower.Value{{Shape: []int{1, 64}}, numbers(64, 64)}, Out: &lower.Value{Shape: []int{1, 64}}}
	if (&converter{precision: int4s}).takes(long) || !(&converter{precision: int8s}).takes(long) {
		t.Error("XNNPACK has no products with negative scales")
	}
}

func first[A, B any](a A, _ B) A { return a }

// The operations of a region agree with the definition of a convolution for any window
// in any precision.
func TestConvolutionDelegate(t *testing.T) {
	for _, precision := range []string{fp32, fp16, int8s} {
		for _, n := range []*lower.Node{
			conv(4, 8, 1, []int{5, 6}, []int{3, 3}, []int{1, 1}, []int{1, 1}, []int{0, 0}, []int{0, 0}),
			conv(4, 8, 1, []int{9, 8}, []int{3, 2}, []int{2, 3}, []int{1, 1}, []int{1, 1}, []int{1, 0}),
			conv(4, 8, 1, []int{9, 9}, []int{3, 3}, []int{2, 2}, []int{2, 1}, []int{2, 1}, []int{2, 0}),
			conv(4, 8, 1, []int{8, 8}, []int{4, 4}, []int{4, 4}, []int{1, 1}, []int{0, 0}, []int{0, 0}),
			conv(4, 8, 1, []int{9, 9}, []int{4, 4}, []int{4, 4}, []int{1, 1}, []int{0, 0}, []int{0, 0}),
			conv(4, 20, 1, []int{5, 6}, []int{1, 1}, []int{1, 1}, []int{1, 1}, []int{0, 0}, []int{0, 0}),
			conv(1, 8, 1, []int{9, 9}, []int{4, 4}, []int{2, 2}, []int{1, 1}, []int{0, 0}, []int{0, 0}),
			conv(8, 8, 8, []int{9, 9}, []int{3, 3}, []int{1, 1}, []int{1, 1}, []int{1, 1}, []int{1, 1}),
			conv(4, 8, 1, []int{12}, []int{5}, []int{2}, []int{1}, []int{2}, []int{2}),
			conv(4, 8, 1, []int{7}, []int{7}, []int{3}, []int{1}, []int{0}, []int{0}),
		} {
			r := newRegion(precision)
			x := n.In[0]
			r.c.at[x] = r.c.tensor(Float32, x.Shape)
			if !r.c.takes(n) {
				t.Fatalf("%s: %v is not delegated", precision, n)
			}
			r.node(n)
			r.get(n.Out)
			in := numbers(x.Shape...).Const.Floats
			got := computed(t, r, in)
			want := convolved(n, in)
			for i, v := range want {
				if d := math.Abs(float64(got[i] - v)); len(got) != len(want) || d > 0.4 || precision == fp32 && d > 1e-4 {
					t.Errorf("%s, kernel %v, strides %v: element %d of %d: got %v of %d, want %v", precision, n.In[1].Shape, n.Strides, i, len(want), got[i], len(got), v)
					break
				}
			}
		}
	}
	c := &converter{precision: fp32}
	for name, change := range map[string]func(n *lower.Node){
		"negative pads":    func(n *lower.Node) { n.After = []int{0, -1} },
		"computed weights": func(n *lower.Node) { n.In[1] = &lower.Value{Shape: []int{8, 4, 3, 3}} },
		"a computed bias":  func(n *lower.Node) { n.In[2] = &lower.Value{Shape: []int{8}} },
		"integers":         func(n *lower.Node) { n.In[0] = &lower.Value{Shape: []int{1, 4, 5, 6}, Type: lower.Int32} },
	} {
		n := conv(4, 8, 1, []int{5, 6}, []int{3, 3}, []int{1, 1}, []int{1, 1}, []int{0, 0}, []int{0, 0})
		if change(n); c.takes(n) {
			t.Errorf("%s: delegated", name)
		}
	}
}

// conv returns a convolution with a bias.
func conv(in, out, groups int, size, kernel, strides, dilations, before, after []int) *lower.Node {
	shape := []int{1, out}
	for i, s := range size {
		shape = append(shape, (s+before[i]+after[i]-dilations[i]*(kernel[i]-1)-1)/strides[i]+1)
	}
	return &lower.Node{
		Op: lower.Conv, In: []*lower.Value{{Name: "x", Shape: slices.Concat([]int{1, in}, size)}, numbers(slices.Concat([]int{out, in / groups}, kernel)...), numbers(out)},
		Out: &lower.Value{Name: "y", Shape: shape}, Strides: strides, Dilations: dilations, Before: before, After: after, Groups: groups,
	}
}

// convolved computes a convolution of one or two dimensions by its definition.
func convolved(n *lower.Node, x []float32) (out []float32) {
	w := n.In[1]
	size, kernel, steps, each, before := flat(n.In[0].Shape[2:], 1), flat(w.Shape[2:], 1), flat(n.Strides, 1), flat(n.Dilations, 1), flat(n.Before, 0)
	to, per := flat(n.Out.Shape[2:], 1), w.Shape[1]
	for o := range w.Shape[0] {
		for h := range to[0] {
			for v := range to[1] {
				sum := n.In[2].Const.Floats[o]
				for i := range per {
					c := o/(w.Shape[0]/n.Groups)*per + i
					for a := range kernel[0] {
						for b := range kernel[1] {
							row, column := h*steps[0]+a*each[0]-before[0], v*steps[1]+b*each[1]-before[1]
							if row >= 0 && column >= 0 && row < size[0] && column < size[1] {
								sum += x[(c*size[0]+row)*size[1]+column] * w.Const.Floats[((o*per+i)*kernel[0]+a)*kernel[1]+b]
							}
						}
					}
				}
				out = append(out, sum)
			}
		}
	}
	return out
}

// XNNPACK takes values of at most maxXNNRank dimensions, and none without elements.
func TestRank(t *testing.T) {
	for shape, want := range map[*[]int]bool{
		{1, 1, 1, 1, 1, 2}: true, {1, 1, 1, 1, 1, 1, 2}: false, {2, 0}: false, {}: false, {1}: true,
	} {
		v := &lower.Value{Shape: *shape}
		got := (&converter{precision: fp32}).takes(&lower.Node{Op: lower.Abs, In: []*lower.Value{v}, Out: v})
		if got != want || len(*shape) > maxXNNRank && got {
			t.Errorf("%v: got %v, want %v", *shape, got, want)
		}
	}
}

// A region reads only values computed before it, and every node is in one stage.
func TestStages(t *testing.T) {
	shape := []int{1, 3, 64}
	value := func() *lower.Value { return &lower.Value{Shape: shape} }
	x, node := value(), func(op lower.Op, in ...*lower.Value) *lower.Node {
		return &lower.Node{Op: op, In: in, Out: value()}
	}
	a := node(lower.Abs, x)
	b := node(lower.Round, a.Out) // not of XNNPACK
	c := node(lower.Exp, x)       // of the first region, although it comes later
	d := node(lower.Add, b.Out, c.Out)
	e := node(lower.Round, x)
	f := node(lower.Mul, d.Out, e.Out)
	g := node(lower.Round, f.Out)
	stages := (&converter{precision: fp32}).stages([]*lower.Node{a, b, c, d, e, f, g})
	want := []stage{{region: []*lower.Node{a, c}, single: []*lower.Node{b, e}}, {region: []*lower.Node{d, f}, single: []*lower.Node{g}}}
	if got := fmt.Sprint(stages); got != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	inside := map[*lower.Value]bool{a.Out: true, c.Out: true}
	needs := needed(&lower.Graph{Nodes: []*lower.Node{a, b, c, d, e, f, g}, Outputs: []*lower.Value{g.Out}}, stages[0].region)
	if !needs[a.Out] || !needs[c.Out] || !needs[g.Out] || len(inside) != 2 {
		t.Errorf("got %v", needs)
	}
	if needs := needed(&lower.Graph{Nodes: []*lower.Node{d, f, g}, Outputs: []*lower.Value{g.Out}}, stages[1].region); needs[d.Out] || !needs[f.Out] {
		t.Errorf("got %v", needs)
	}
}

// Methods share weights, and a segment, a graph or a constant beyond its bounds is
// refused.
func TestDelegates(t *testing.T) {
	files, problems, err := Exporter{}.Compose([]export.Named{{Name: "decode", Graph: graph(64)}, {Name: "prefill", Graph: graph(64)}}, "m", fp32)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	var b bytes.Buffer
	if err := files[0].Write(&b); err != nil {
		t.Fatal(err)
	}
	p, err := htp.ReadExecuTorch(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil || len(p.Delegates) != 2 || p.Parameters != 64*64 || p.Calls()[delegateID] != 2 {
		t.Fatalf("got %+v, %v", p, err)
	}
	at := bytes.Index(b.Bytes(), []byte(delegateMagic))
	if bytes.Count(b.Bytes(), []byte(delegateMagic)) != 1 {
		t.Error("the delegate is stored twice")
	}
	for want, damage := range map[string]func(data []byte){
		"exceeds the delegate": func(data []byte) { binary.LittleEndian.PutUint32(data[at+10:], 1<<20) },
		"exceeds the file":     func(data []byte) { binary.LittleEndian.PutUint64(data[24:], uint64(len(data))); clear(data[32:40]) },
		"exceed the buffer":    func(data []byte) { binary.LittleEndian.PutUint32(data[at+28:], 1<<20) },
	} {
		data := bytes.Clone(b.Bytes())
		damage(data)
		if _, err := htp.ReadExecuTorch(bytes.NewReader(data), int64(len(data))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
