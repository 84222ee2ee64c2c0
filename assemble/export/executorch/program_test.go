package executorch

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/onnx/lower"
)

// graph returns a linear layer, a GELU and a sum with the input.
func graph(width int) *lower.Graph {
	weights := make([]float32, width*width)
	for i := range weights {
		weights[i] = float32(i%17)/16 - 0.5
	}
	shape := []int{1, 3, width}
	in, w := &lower.Value{Name: "x", Shape: shape}, &lower.Value{Name: "w", Shape: []int{width, width}, Const: &lower.Const{Floats: weights}}
	y, z, out := &lower.Value{Name: "y", Shape: shape}, &lower.Value{Name: "z", Shape: shape}, &lower.Value{Name: "out", Shape: shape}
	return &lower.Graph{Name: "g", Inputs: []*lower.Value{in}, Outputs: []*lower.Value{out}, Nodes: []*lower.Node{
		{Op: lower.MatMul, Name: "linear", In: []*lower.Value{in, w}, Out: y, TransposeB: true},
		{Op: lower.Gelu, Name: "gelu", In: []*lower.Value{y}, Out: z, Mode: "none"},
		{Op: lower.Add, Name: "sum", In: []*lower.Value{z, in}, Out: out},
	}}
}

func encoded(t *testing.T, g *lower.Graph, precision string) []byte {
	t.Helper()
	files, problems, err := Exporter{}.Files(g, "m", precision)
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	var b bytes.Buffer
	if err := files[0].Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A program reads back with its calls, tensors and constants, and equal graphs have
// equal bytes.
func TestPrograms(t *testing.T) {
	for precision, want := range map[string]struct {
		weights map[string]int64
		calls   map[string]int
	}{
		fp32:  {map[string]int64{"float32": 64 * 64 * 4}, map[string]int{}},
		fp16:  {map[string]int64{"float16": 64 * 64 * 2}, map[string]int{}},
		int8s: {map[string]int64{"int8": 64 * 64}, map[string]int{}},
		int4s: {map[string]int64{"uint8": 64 * 64 / 2, "float32": 64 * 2 * 4}, map[string]int{
			"aten::linear.out": 1, "aten::_to_copy.out": 1, "aten::mul.out": 1, "aten::sub.Scalar_out": 1, "aten::cat.out": 1, "aten::bitwise_and.Scalar_out": 1, "aten::bitwise_right_shift.Tensor_Scalar_out": 1,
		}},
	} {
		data := encoded(t, graph(64), precision)
		if again := encoded(t, graph(64), precision); !bytes.Equal(data, again) {
			t.Errorf("%s: bytes differ", precision)
		}
		p, err := htp.ReadExecuTorch(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(precision, err)
		}
		want.calls[delegateID] = 1
		if d := cmp.Diff(want.calls, p.Calls()); d != "" {
			t.Errorf("%s: calls\n%s", precision, d)
		}
		if d := cmp.Diff(want.weights, p.Weights); d != "" {
			t.Errorf("%s: weights\n%s", precision, d)
		}
		port := []htp.LiteRTTensor{{DType: "float32", Dims: []int32{1, 3, 64}}}
		if d := cmp.Diff([][]htp.LiteRTTensor{port, port}, [][]htp.LiteRTTensor{p.Methods[0].Inputs, p.Methods[0].Outputs}); d != "" {
			t.Errorf("%s: ports\n%s", precision, d)
		}
	}
}

// Tensors that are in use at the same call do not overlap, and memory is used again.
func TestMemory(t *testing.T) {
	g := graph(64)
	for range 20 {
		last := g.Outputs[0]
		next := &lower.Value{Name: "more", Shape: last.Shape}
		g.Nodes = append(g.Nodes, &lower.Node{Op: lower.Tanh, Name: "tanh", In: []*lower.Value{last}, Out: next})
		g.Outputs = []*lower.Value{next}
	}
	p := &Program{}
	if problems := p.convert(g, "forward", fp32); len(problems) > 0 {
		t.Fatal(problems)
	}
	m := p.Methods[0]
	size := int64(3 * 64 * 4)
	if m.Arena > 3*size {
		t.Errorf("arena of %d bytes, want at most three tensors of %d", m.Arena, size)
	}
	var all []*storage
	for _, v := range m.Values {
		if x, ok := v.(*Tensor); ok && x.storage != nil {
			all = append(all, x.storage)
		}
	}
	for i, a := range all {
		for _, b := range all[:i] {
			if a != b && a.first <= b.last && b.first <= a.last && a.offset < b.offset+b.size && b.offset < a.offset+a.size {
				t.Errorf("%+v and %+v overlap", *a, *b)
			}
		}
	}
}

// Every node that cannot be written is named.
func TestUnsupported(t *testing.T) {
	g := graph(64)
	g.Nodes[1].Op = "Mystery"
	_, problems, err := Exporter{}.Files(g, "m", fp32)
	if err != nil || len(problems) != 1 || problems[0].Node != "gelu" || problems[0].Op != "Mystery" {
		t.Errorf("got %v, %v", problems, err)
	}
}
