package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// chain is a model in a compact notation: consecutive nodes "Op a,b -> c" over
// the input x; numbers denote constants, w and r a matrix of 6×6 and a row of
// 6.
type chain struct {
	name  string
	nodes []string
	want  []string // the remaining operators
}

var chains = []chain{
	{"silu", []string{"Sigmoid x -> s", "Mul x,s -> y"}, []string{"Swish"}},
	{"silu with swapped factors", []string{"Sigmoid x -> s", "Mul s,x -> y"}, []string{"Swish"}},
	{"silu of 1·x", []string{"Mul x,1 -> t", "Sigmoid t -> s", "Mul x,s -> y"}, []string{"Swish"}},
	{"not silu: 2·x", []string{"Mul x,2 -> t", "Sigmoid t -> s", "Mul x,s -> y"}, []string{"Mul", "Sigmoid", "Mul"}},
	{"not silu: different values", []string{"Sigmoid x -> s", "Relu x -> t", "Mul t,s -> y"}, []string{"Sigmoid", "Relu", "Mul"}},
	{"gelu", []string{"Div x,1.41421356 -> d", "Erf d -> e", "Add e,1 -> p", "Mul x,p -> m", "Mul m,0.5 -> y"}, []string{"Gelu"}},
	{"gelu, half first", []string{"Mul x,0.5 -> h", "Mul x,0.70710678 -> d", "Erf d -> e", "Add 1,e -> p", "Mul h,p -> y"}, []string{"Gelu"}},
	{"gelu, half of the curve", []string{"Div x,1.41421356 -> d", "Erf d -> e", "Add e,1 -> p", "Mul 0.5,p -> m", "Mul x,m -> y"}, []string{"Gelu"}},
	{"not gelu: division by 2", []string{"Div x,2 -> d", "Erf d -> e", "Add e,1 -> p", "Mul x,p -> m", "Mul m,0.5 -> y"}, []string{"Div", "Erf", "Add", "Mul", "Mul"}},
	{"not gelu: different values", []string{"Relu x -> t", "Div t,1.41421356 -> d", "Erf d -> e", "Add e,1 -> p", "Mul x,p -> m", "Mul m,0.5 -> y"}, []string{"Relu", "Div", "Erf", "Add", "Mul", "Mul"}},
	{"layer norm", []string{"ReduceMean x -> m", "Sub x,m -> c", "Pow c,2 -> q", "ReduceMean q -> v", "Add v,0.001 -> e", "Sqrt e -> s", "Div c,s -> n", "Mul n,r -> g", "Add g,r -> y"}, []string{"LayerNormalization"}},
	{"layer norm, gain first", []string{"ReduceMean x -> m", "Sub x,m -> c", "Pow c,2 -> q", "ReduceMean q -> v", "Add v,0.001 -> e", "Sqrt e -> s", "Div c,s -> n", "Mul r,n -> g", "Add r,g -> y"}, []string{"LayerNormalization"}},
	{"not layer norm: fourth powers", []string{"ReduceMean x -> m", "Sub x,m -> c", "Pow c,4 -> q", "ReduceMean q -> v", "Add v,0.001 -> e", "Sqrt e -> s", "Div c,s -> n", "Mul n,r -> g", "Add g,r -> y"}, []string{"ReduceMean", "Sub", "Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"}},
	{"not layer norm: mean of a different value", []string{"Relu x -> t", "ReduceMean t -> m", "Sub x,m -> c", "Pow c,2 -> q", "ReduceMean q -> v", "Add v,0.001 -> e", "Sqrt e -> s", "Div c,s -> n", "Mul n,r -> g", "Add g,r -> y"}, []string{"Relu", "ReduceMean", "Sub", "Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"}},
	{"weights with two uses", []string{"MatMul x,w -> m", "MatMul m,w -> n", "Relu n -> y"}, []string{"MatMul", "MatMul"}},
	{"bias", []string{"MatMul x,w -> m", "Add m,r -> y"}, []string{"MatMul"}},
	{"bias and activation", []string{"MatMul x,w -> m", "Add r,m -> b", "Relu b -> y"}, []string{"MatMul"}},
	{"bias and silu", []string{"MatMul x,w -> m", "Add m,r -> b", "Sigmoid b -> s", "Mul b,s -> y"}, []string{"MatMul"}},
	{"activation alone", []string{"MatMul x,w -> m", "Tanh m -> y"}, []string{"MatMul"}},
	{"one activation of two", []string{"MatMul x,w -> m", "Tanh m -> t", "Relu t -> y"}, []string{"MatMul", "Relu"}},
	{"no bias of one number", []string{"MatMul x,w -> m", "Add m,3 -> y"}, []string{"MatMul", "Add"}},
	{"no bias after an activation", []string{"MatMul x,w -> m", "Relu m -> t", "Add t,r -> y"}, []string{"MatMul", "Add"}},
	{"transposed factor", []string{"Transpose x -> t", "MatMul x,t -> y"}, []string{"MatMul"}},
	{"attention", []string{"Tanh x -> k", "Sigmoid x -> w2", "Transpose k -> t", "MatMul x,t -> s", "Softmax s -> p", "MatMul p,w2 -> y"}, []string{"Tanh", "Sigmoid", "Attention"}},
	{"attention with scale and mask", []string{"Tanh x -> k", "Sigmoid x -> v", "Transpose k -> t", "MatMul x,t -> s", "Div s,3 -> d", "Add d,mask -> m", "Softmax m -> p", "MatMul p,v -> y"}, []string{"Tanh", "Sigmoid", "Attention"}},
	{"attention, mask first", []string{"Tanh x -> k", "Sigmoid x -> v", "Transpose k -> t", "MatMul x,t -> s", "Mul s,0.5 -> d", "Add wide,d -> m", "Softmax m -> p", "MatMul p,v -> y"}, []string{"Tanh", "Sigmoid", "Attention"}},
	{"attention along a different axis", []string{"Tanh x -> k", "Sigmoid x -> v", "Transpose k -> t", "MatMul x,t -> s", "Mul s,0.5 -> d", "Add d,mask -> m", "Softmax1 m -> p", "MatMul p,v -> y"}, []string{"Tanh", "Sigmoid", "Attention"}},
	{"no attention over constants", []string{"Softmax x -> p", "MatMul p,w -> y"}, []string{"Softmax", "MatMul"}},
	{"two transpositions", []string{"Transpose x -> t", "Transpose t -> y"}, []string{"Transpose"}},
	{"read twice", []string{"MatMul x,w -> m", "Add m,r -> b", "Mul m,b -> y"}, []string{"MatMul", "Add", "Mul"}},
}

// model returns the chain as a model; if open is set, every value is a result,
// so that nothing can be fused.
func (c chain) model(open bool) *onnx.Model {
	rng := rand.New(rand.NewPCG(1, 1))
	m := onnx.New("g", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 2, 5, 6)}
	m.Graph.Outputs = []onnx.Value{{Name: "y"}}
	m.Graph.Constant(onnx.Floats("w", []int64{6, 6}, noise(rng, 36)))
	m.Graph.Constant(onnx.Floats("r", []int64{6}, noise(rng, 6)))
	m.Graph.Constant(onnx.Floats("mask", []int64{5}, noise(rng, 5)))
	m.Graph.Constant(onnx.Floats("wide", []int64{2, 1, 5}, noise(rng, 10)))
	defined := map[string]bool{"x": true, "w": true, "r": true}
	for _, n := range c.nodes {
		var name, in, out string
		_, _ = fmt.Sscanf(n, "%s %s -> %s", &name, &in, &out)
		node := onnx.Node{Op: name, Inputs: strings.Split(in, ","), Outputs: []string{out}}
		for _, v := range node.Inputs {
			var x float32
			if _, err := fmt.Sscan(v, &x); err == nil && !defined[v] {
				m.Graph.Constant(onnx.Floats(v, nil, []float32{x}))
				defined[v] = true
			}
		}
		switch name {
		case "ReduceMean":
			node.Attributes = []onnx.Attribute{{Name: "axes", Type: onnx.AttrInts, Ints: []int64{-1}}}
		case "Softmax1":
			node.Op, node.Attributes = "Softmax", []onnx.Attribute{onnx.Int("axis", 1)}
		case "Transpose":
			node.Attributes = []onnx.Attribute{{Name: "perm", Type: onnx.AttrInts, Ints: []int64{0, 2, 1}}}
		}
		m.Graph.Nodes = append(m.Graph.Nodes, node)
		if open && out != "y" {
			m.Graph.Outputs = append(m.Graph.Outputs, onnx.Value{Name: out})
		}
	}
	return m
}

func noise(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

// Chains are fused if and only if they are equivalent to one operator, with the
// results of their parts.
func TestFuse(t *testing.T) {
	x := Tensor{Type: onnx.FLOAT, Shape: []int{2, 5, 6}}
	for _, v := range noise(rand.New(rand.NewPCG(2, 2)), 60) {
		x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(2*v))
	}
	for _, c := range chains {
		var results [2][]float32
		for i, open := range []bool{false, true} {
			p, err := Compile(t.Context(), c.model(open), Options{Threads: 1})
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			var left []string
			for _, st := range p.main.steps {
				left = append(left, st.node.Op)
			}
			if want := c.want; !open && !slices.Equal(left, want) {
				t.Errorf("%s: remaining operators: got %v, want %v", c.name, left, want)
			}
			if open && len(left) != len(c.nodes) {
				t.Errorf("%s: got %v, want all %d nodes", c.name, left, len(c.nodes))
			}
			out, err := p.Run(t.Context(), map[string]Tensor{"x": x})
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			a := kernel.Arena{}
			y, err := a.FromBytes(onnx.FLOAT, out["y"].Shape, out["y"].Data)
			if err != nil {
				t.Fatal(err)
			}
			results[i] = slices.Clone(kernel.Elements[float32](y))
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if len(results[0]) != len(results[1]) {
			t.Fatalf("%s: got %d elements, want %d", c.name, len(results[0]), len(results[1]))
		}
		for i, v := range results[0] {
			if want := results[1][i]; math.Abs(float64(v-want)) > 2e-5*max(1, math.Abs(float64(want))) {
				t.Fatalf("%s: element %d: got %v, want %v", c.name, i, v, want)
			}
		}
	}
}

// Packed weights are not kept twice, and count against the memory limit.
func TestPackedMemory(t *testing.T) {
	const n = 512
	m := onnx.New("g", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 1, n)}
	m.Graph.Outputs = []onnx.Value{{Name: "y"}}
	m.Graph.Constant(onnx.Floats("w", []int64{n, n}, make([]float32, n*n)))
	m.Graph.Add("MatMul", []string{"x", "w"}, "y")
	p, err := Compile(t.Context(), m, Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	if live := p.arena.Live(); live != 0 {
		t.Errorf("%d bytes of constants in addition to the packed weights", live)
	}
	if peak := p.Peak(); peak < 2*4*n*n {
		t.Errorf("peak of %d bytes, weights and packed weights take %d", peak, 2*4*n*n)
	}
	if _, err := Compile(t.Context(), m, Options{Threads: 1, Memory: 4*n*n + 4*n*n/2}); err == nil || !strings.Contains(err.Error(), ErrMemory.Error()) {
		t.Errorf("packing beyond the limit: %v", err)
	}
}
