package lower

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
)

// samples returns random inputs for a model; unknown dimensions are 2.
func samples(t testing.TB, m *onnx.Model) map[string]engine.Tensor {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	out := map[string]engine.Tensor{}
	for _, in := range m.Inputs() {
		v := engine.Tensor{Type: in.Type.DType}
		n := 1
		for _, d := range in.Type.Dims {
			size := int(d.Value)
			if d.Param != "" || d.Value == onnx.Unknown {
				size = 2
			}
			v.Shape, n = append(v.Shape, size), n*size
		}
		for range n {
			switch in.Type.DType {
			case onnx.FLOAT16:
				b := make([]byte, 2)
				quant.Quantize(b, []float32{float32(r.NormFloat64())}, tensor.F16)
				v.Data = append(v.Data, b...)
			case onnx.FLOAT:
				v.Data = binary.LittleEndian.AppendUint32(v.Data, math.Float32bits(float32(r.NormFloat64())))
			case onnx.INT64:
				v.Data = binary.LittleEndian.AppendUint64(v.Data, uint64(r.IntN(3)))
			case onnx.BOOL:
				v.Data = append(v.Data, byte(r.IntN(2)))
			default:
				t.Fatalf("input %s of type %s", in.Name, in.Type.DType)
			}
		}
		out[in.Name] = v
	}
	return out
}

func run(t testing.TB, m *onnx.Model, in map[string]engine.Tensor) map[string]engine.Tensor {
	t.Helper()
	p, err := engine.Compile(t.Context(), m, engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	out, err := p.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// widened returns tensors with float32 in place of 16-bit floats.
func widened(in map[string]engine.Tensor) map[string]engine.Tensor {
	out := map[string]engine.Tensor{}
	for name, v := range in {
		if v.Type == onnx.FLOAT16 {
			x := make([]float32, len(v.Data)/2)
			quant.Dequantize(x, v.Data, tensor.F16)
			v.Type, v.Data = onnx.FLOAT, make([]byte, 4*len(x))
			quant.Quantize(v.Data, x, tensor.F32)
		}
		out[name] = v
	}
	return out
}

// compare lowers a model and compares what both compute.
func compare(t *testing.T, m *onnx.Model, in map[string]engine.Tensor) *Graph {
	t.Helper()
	g, problems, err := Lower(t.Context(), m, in)
	if err != nil || len(problems) > 0 {
		t.Fatalf("%v, %v", problems, err)
	}
	want, got := run(t, m, in), run(t, g.Model(), widened(in))
	tolerance := 1e-5
	for name, w := range want {
		if w.Type == onnx.FLOAT16 { // rounded by the model
			w, tolerance = widened(map[string]engine.Tensor{"": w})[""], 2e-3
		}
		if w.Type != onnx.FLOAT { // narrow integers are widened
			if !slices.Equal(contents(w).Ints, contents(got[name]).Ints) {
				t.Errorf("%s differs", name)
			}
			continue
		}
		if len(got[name].Data) != len(w.Data) {
			t.Fatalf("%s: got shape %v, want %v", name, got[name].Shape, w.Shape)
		}
		for i := 0; i+4 <= len(w.Data); i += 4 {
			a, b := math.Float32frombits(binary.LittleEndian.Uint32(got[name].Data[i:])), math.Float32frombits(binary.LittleEndian.Uint32(w.Data[i:]))
			if !(math.Abs(float64(a-b)) <= tolerance*max(1, math.Abs(float64(b)))) {
				t.Fatalf("%s: element %d is %v, want %v", name, i/4, a, b)
			}
		}
	}
	return g
}

// The modules of the catalog, and models of others where they exist, compute the
// same after lowering.
func TestModules(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testfiles.Root(t), "catalog", "*", "*.onnx"))
	if err != nil || len(files) < 6 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	more, _ := filepath.Glob(filepath.Join(testfiles.Root(t), "..", "shared", "data", "onnx", "mnist.onnx"))
	for _, file := range append(files, more...) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".onnx"), func(t *testing.T) {
			m, err := onnx.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			g := compare(t, m, samples(t, m))
			t.Logf("%d nodes of %d", len(g.Nodes), len(m.Graph.Nodes))
		})
	}
	if len(more) == 0 {
		t.Log("skipped: no ../shared/data")
	}
}

// part is a model of one operator.
func part(op string, in []onnx.Value, consts []onnx.Tensor, names []string, attributes ...onnx.Attribute) *onnx.Model {
	m := onnx.New("part", 20)
	m.Graph.Inputs = in
	for _, c := range consts {
		m.Graph.Constant(c)
	}
	m.Graph.Add(op, names, "y", attributes...)
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT)}
	return m
}

// Operators compute the same after lowering, with their attributes.
func TestOperators(t *testing.T) {
	x := func(dims ...any) []onnx.Value { return []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, dims...)} }
	r := rand.New(rand.NewPCG(1, 2))
	weights := func(name string, dims ...int64) onnx.Tensor {
		n := int64(1)
		for _, d := range dims {
			n *= d
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.Float64()) + 0.1
		}
		return onnx.Floats(name, dims, v)
	}
	ints := func(name string, v ...int64) onnx.Tensor { return onnx.Ints(name, []int64{int64(len(v))}, v) }
	one := []string{"x"}
	for name, m := range map[string]*onnx.Model{
		"conv":          part("Conv", x(1, 4, 9, 7), []onnx.Tensor{weights("w", 6, 2, 3, 2), weights("b", 6)}, []string{"x", "w", "b"}, onnx.Int("group", 2), onnx.IntList("strides", 2, 1), onnx.IntList("pads", 1, 0, 2, 1), onnx.IntList("dilations", 1, 2)),
		"conv same":     part("Conv", x(1, 3, 8, 8), []onnx.Tensor{weights("w", 2, 3, 3, 3)}, []string{"x", "w"}, onnx.String("auto_pad", "SAME_LOWER"), onnx.IntList("strides", 2, 2)),
		"conv 1-D":      part("Conv", x(1, 3, 11), []onnx.Tensor{weights("w", 2, 3, 4)}, []string{"x", "w"}, onnx.IntList("pads", 2, 1)),
		"deconv":        part("ConvTranspose", x(1, 4, 5, 5), []onnx.Tensor{weights("w", 4, 3, 3, 3), weights("b", 3)}, []string{"x", "w", "b"}, onnx.IntList("strides", 2, 2), onnx.IntList("pads", 1, 1, 1, 1), onnx.IntList("output_padding", 1, 1)),
		"gemm":          part("Gemm", x(3, 4), []onnx.Tensor{weights("w", 5, 3), weights("b", 5)}, []string{"x", "w", "b"}, onnx.Int("transA", 1), onnx.Int("transB", 1), onnx.Float("alpha", 0.5), onnx.Float("beta", 2)),
		"max pool":      part("MaxPool", x(1, 2, 7, 7), nil, one, onnx.IntList("kernel_shape", 3, 3), onnx.IntList("strides", 2, 2), onnx.Int("ceil_mode", 1)),
		"mean pool":     part("AveragePool", x(1, 2, 6, 6), nil, one, onnx.IntList("kernel_shape", 3, 3), onnx.IntList("pads", 1, 1, 1, 1)),
		"global":        part("GlobalAveragePool", x(1, 2, 6, 6), nil, one),
		"batch norm":    part("BatchNormalization", x(1, 3, 4, 4), []onnx.Tensor{weights("a", 3), weights("b", 3), weights("c", 3), weights("d", 3)}, []string{"x", "a", "b", "c", "d"}),
		"instance norm": part("InstanceNormalization", x(1, 3, 4, 4), []onnx.Tensor{weights("a", 3), weights("b", 3)}, []string{"x", "a", "b"}),
		"layer norm":    part("LayerNormalization", x(2, 3, 8), []onnx.Tensor{weights("a", 8)}, []string{"x", "a"}),
		"softmax":       part("Softmax", x(2, 3, 8), nil, one, onnx.Int("axis", 1)),
		"gelu":          part("Gelu", x(2, 9), nil, one, onnx.String("approximate", "tanh")),
		"leaky":         part("LeakyRelu", x(2, 9), nil, one, onnx.Float("alpha", 0.3)),
		"elu":           part("Elu", x(2, 9), nil, one, onnx.Float("alpha", 0.3)),
		"hard sigmoid":  part("HardSigmoid", x(2, 9), nil, one),
		"prelu":         part("PRelu", x(2, 9), []onnx.Tensor{weights("s", 9)}, []string{"x", "s"}),
		"clip":          part("Clip", x(2, 9), []onnx.Tensor{onnx.Floats("low", nil, []float32{-0.5})}, []string{"x", "low"}),
		"mean":          part("ReduceMean", x(2, 3, 4), []onnx.Tensor{ints("axes", -1, 0)}, []string{"x", "axes"}, onnx.Int("keepdims", 0)),
		"sum of all":    part("ReduceSum", x(2, 3), nil, one),
		"transpose":     part("Transpose", x(2, 3, 4), nil, one),
		"slice":         part("Slice", x(4, 9), []onnx.Tensor{ints("s", -2, 1), ints("e", math.MinInt64, 8), ints("a", 0, 1), ints("k", -1, 3)}, []string{"x", "s", "e", "a", "k"}),
		"gather":        part("Gather", x(4, 5), []onnx.Tensor{ints("i", 2, 0)}, []string{"x", "i"}, onnx.Int("axis", 1)),
		"pad":           part("Pad", x(2, 3), []onnx.Tensor{ints("p", 1, 0, 0, 2), onnx.Floats("v", nil, []float32{7})}, []string{"x", "p", "v"}),
		"reflect":       part("Pad", x(2, 4), []onnx.Tensor{ints("p", 0, 2, 0, 1)}, []string{"x", "p"}, onnx.String("mode", "reflect")),
		"expand":        part("Expand", x(3, 1), []onnx.Tensor{ints("s", 2, 3, 4)}, []string{"x", "s"}),
		"tile":          part("Tile", x(3, 2), []onnx.Tensor{ints("s", 2, 3)}, []string{"x", "s"}),
		"resize":        part("Resize", x(1, 2, 4, 4), []onnx.Tensor{ints("s", 1, 2, 8, 6)}, []string{"x", "", "", "s"}, onnx.String("mode", "linear")),
		"nearest":       part("Resize", x(1, 2, 4, 4), []onnx.Tensor{ints("s", 1, 2, 8, 6)}, []string{"x", "", "", "s"}, onnx.String("nearest_mode", "floor"), onnx.String("coordinate_transformation_mode", "asymmetric")),
		"depth":         part("DepthToSpace", x(1, 8, 2, 3), nil, one, onnx.Int("blocksize", 2), onnx.String("mode", "CRD")),
		"max of three":  part("Max", x(2, 3), []onnx.Tensor{weights("a", 3), weights("b", 2, 1)}, []string{"x", "a", "b"}),
		"pow":           part("Pow", x(2, 3), []onnx.Tensor{onnx.Floats("p", nil, []float32{2})}, []string{"x", "p"}),
	} {
		t.Run(name, func(t *testing.T) { compare(t, m, samples(t, m)) })
	}
}

// A batch normalization joins the convolution before it, and the error-function
// form of GELU is one operator in each order of its factors.
func TestFused(t *testing.T) {
	m := onnx.New("conv", 20)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 1, 1, 3, 3)}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT)}
	w := m.Graph.Constant(onnx.Floats("w", []int64{2, 1, 1, 1}, []float32{2, -3}))
	c := m.Graph.Add("Conv", []string{"x", w}, "c")
	in := []string{c}
	for i, v := range [][]float32{{0.5, 2}, {1, -1}, {3, 4}, {0.25, 4}} {
		in = append(in, m.Graph.Constant(onnx.Floats(string(rune('p'+i)), []int64{2}, v)))
	}
	m.Graph.Add("BatchNormalization", in, "y")
	if g := compare(t, m, samples(t, m)); len(g.Nodes) != 1 || g.Nodes[0].Op != Conv {
		t.Errorf("got %d nodes, want one convolution", len(g.Nodes))
	}
	for order := range 3 {
		m := onnx.New("gelu", 20)
		m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 7)}
		m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT)}
		number := func(name string, v float32) string { return m.Graph.Constant(onnx.Floats(name, nil, []float32{v})) }
		half, root, one := number("half", 0.5), number("root", math.Sqrt2), number("one", 1)
		more := m.Graph.Add("Add", []string{m.Graph.Add("Erf", []string{m.Graph.Add("Div", []string{"x", root}, "a")}, "b"), one}, "c")
		switch order {
		case 0:
			m.Graph.Add("Mul", []string{m.Graph.Add("Mul", []string{"x", more}, "d"), half}, "y")
		case 1:
			m.Graph.Add("Mul", []string{"x", m.Graph.Add("Mul", []string{more, half}, "d")}, "y")
		case 2:
			m.Graph.Add("Mul", []string{m.Graph.Add("Mul", []string{"x", half}, "d"), more}, "y")
		}
		if g := compare(t, m, samples(t, m)); len(g.Nodes) != 1 || g.Nodes[0].Op != Gelu {
			t.Errorf("order %d: got %d nodes, want one GELU", order, len(g.Nodes))
		}
	}
}

// All nodes that cannot be lowered are reported at once.
func TestProblems(t *testing.T) {
	m := onnx.New("odd", 20)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 2, 3), onnx.TensorValue("n", onnx.INT64, 1)}
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT)}
	m.Graph.Add("Add", []string{m.Graph.Add("CumSum", []string{"x", "n"}, "a"), m.Graph.Add("TopK", []string{"x", m.Graph.Constant(onnx.Ints("k", []int64{1}, []int64{3}))}, "b")}, "y")
	m.Graph.Nodes[1].Outputs = []string{"b", "indices"}
	in := samples(t, m)
	g, problems, err := Lower(t.Context(), m, in)
	if g != nil || err != nil || len(problems) != 2 {
		t.Fatalf("got %v, %v, %v", g, problems, err)
	}
	if got := problems[0].String() + "; " + problems[1].String(); !strings.Contains(got, `"a" (CumSum)`) || !strings.Contains(got, `"b" (TopK)`) {
		t.Error(got)
	}
}
