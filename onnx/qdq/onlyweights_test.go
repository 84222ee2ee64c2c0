package qdq_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/onnx/onnxtest"
	"mm-abi.org/mm/onnx/qdq"
)

func ramp(n int, by float64) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(math.Sin(float64(i)*by) * (1 + float64(i%7)))
	}
	return out
}

// net returns a model with a weight of each kind: of a Conv, of a MatMul in a
// Constant, of a Gemm with and without transposition, one that a branch reads
// from the enclosing graph, and one in the branch.
func net(opset int64) *onnx.Model {
	m := onnx.New("net", opset)
	g := &m.Graph
	g.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 1, 2, 4, 4), onnx.TensorValue("c", onnx.BOOL)}
	x := g.Add("Conv", []string{"x", g.Constant(onnx.Floats("conv", []int64{8, 2, 3, 3}, ramp(144, 0.3)))}, "a", onnx.IntList("pads", 1, 1, 1, 1))
	x = g.Add("Flatten", []string{x}, "flat")
	x = g.Add("Gemm", []string{x, g.Constant(onnx.Floats("gemm", []int64{6, 128}, ramp(768, 0.7)))}, "g1", onnx.Int("transB", 1))
	x = g.Add("Gemm", []string{x, g.Constant(onnx.Floats("gemm2", []int64{6, 10}, ramp(60, 0.2)))}, "g2")
	g.Nodes = append(g.Nodes, onnx.Node{Op: "Constant", Outputs: []string{"k"}, Attributes: []onnx.Attribute{onnxtest.TensorAttr("value", onnx.Floats("", []int64{10, 12}, ramp(120, 0.9)))}})
	g.Add("MatMul", []string{x, "k"}, "m")
	branch := func(name string, w string) *onnx.Graph {
		b := &onnx.Graph{Name: name}
		if w == "" {
			w = b.Constant(onnx.Floats(name+".w", []int64{10, 12}, ramp(120, 0.4)))
		}
		b.Add("MatMul", []string{x, w}, name)
		b.Outputs = []onnx.Value{{Name: name, Type: onnx.Type{Kind: onnx.TensorKind, DType: onnx.FLOAT}}}
		return b
	}
	g.Nodes = append(g.Nodes, onnx.Node{Name: "if", Op: "If", Inputs: []string{"c"}, Outputs: []string{"i"}, Attributes: []onnx.Attribute{
		{Name: "then_branch", Type: onnx.AttrGraph, Graph: branch("then", "k")}, {Name: "else_branch", Type: onnx.AttrGraph, Graph: branch("else", "")}}})
	g.Add("Add", []string{"m", "i"}, "y")
	g.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 1, 12)}
	return m
}

// Weights of every kind become integers, in both forms, and the results remain
// close; the original model is unchanged.
func TestInt8(t *testing.T) {
	for _, opset := range []int64{9, 12, 13, 17} {
		m := net(opset)
		small, weights, err := qdq.QuantizeWeights(m, qdq.WeightOptions{MinElements: 50})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, w := range weights {
			names = append(names, w.Name)
			if axis := map[string]int{"conv": 0, "gemm": 0, "gemm2": 1, "k": 1, "else.w": 1}[w.Name]; w.Axis != axis {
				t.Errorf("axis of the channels of %s: got %d, want %d", w.Name, w.Axis, axis)
			}
			if w.After >= w.Before || w.Before != 4*w.Dims[0]*per(w.Dims[1:]) {
				t.Errorf("%+v", w)
			}
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != "conv else.w gemm gemm2 k" {
			t.Errorf("opset %d: %s", opset, got)
		}
		if p := small.Check(onnx.CheckOptions{}); len(p) > 0 {
			t.Errorf("opset %d: %v", opset, p)
		}
		ops := small.Operators()
		if dq, mul := ops[[2]string{"", "DequantizeLinear"}], ops[[2]string{"", "Mul"}]; opset < 13 && (dq != 0 || mul != 5) || opset >= 13 && (dq != 5 || mul != 0) {
			t.Errorf("opset %d: %v", opset, ops)
		}
		if p := onnx.Precision(small); p != "int8" {
			t.Errorf("precision %s", p)
		}
		for seed := range uint64(4) { // both branches
			in, err := drift.Noise(m, nil, seed)
			if err != nil {
				t.Fatal(err)
			}
			in["c"].Data[0] = byte(seed % 2)
			out, err := drift.Measure(t.Context(), m, small, []map[string]tensor{in}, drift.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if d := drift.Drift(out); d > 0.002 || d == 0 {
				t.Errorf("opset %d, seed %d: drift %v", opset, seed, d)
			}
		}
		if len(m.Graph.Initializers) != 3 || m.Operators()[[2]string{"", "Constant"}] != 1 {
			t.Error("original model changed")
		}
	}
}

// Each integer times its scale is within half a step of its weight.
func TestRounding(t *testing.T) {
	w := ramp(1200, 0.37)
	w[600] = 0
	m := onnx.New("m", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 1, 40)}
	m.Graph.Add("MatMul", []string{"x", m.Graph.Constant(onnx.Floats("w", []int64{40, 30}, w))}, "y")
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 1, 30)}
	small, _, err := qdq.QuantizeWeights(m, qdq.WeightOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ints, scales := bytesOf(t, &small.Graph.Initializers[0]), bytesOf(t, &small.Graph.Initializers[1])
	for i, v := range w {
		scale := math.Float32frombits(uint32(scales[i%30*4]) | uint32(scales[i%30*4+1])<<8 | uint32(scales[i%30*4+2])<<16 | uint32(scales[i%30*4+3])<<24)
		if back := float32(int8(ints[i])) * scale; math.Abs(float64(back-v)) > float64(scale)*0.5001 {
			t.Fatalf("element %d: %v decoded as %v, step %v", i, v, back, scale)
		}
	}
}

func TestRefuses(t *testing.T) {
	nan := net(17)
	nan.Graph.Initializers[0] = onnx.Floats("conv", []int64{8, 2, 3, 3}, append(ramp(143, 1), float32(math.NaN())))
	for name, c := range map[string]struct {
		m    *onnx.Model
		opt  qdq.WeightOptions
		want string
	}{
		"opset 6":      {net(6), qdq.WeightOptions{}, "opset 6"},
		"nothing":      {net(17), qdq.WeightOptions{}, ""},
		"too small":    {net(17), qdq.WeightOptions{MinElements: 10000}, "no MatMul, Gemm or Conv"},
		"unknown keep": {net(17), qdq.WeightOptions{MinElements: 50, Keep: []string{"ghost"}}, `unknown weight "ghost"`},
		"NaN":          {nan, qdq.WeightOptions{MinElements: 50}, `weight "conv": element 143 is NaN`},
	} {
		if c.want == "" {
			c.want = "no MatMul, Gemm or Conv"
		}
		if _, _, err := qdq.QuantizeWeights(c.m, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	small, weights, err := qdq.QuantizeWeights(net(17), qdq.WeightOptions{MinElements: 50, Keep: []string{"gemm", "k"}})
	if err != nil || len(weights) != 3 || small.Operators()[[2]string{"", "Constant"}] != 1 {
		t.Errorf("%v, %v", weights, err)
	}
}

type tensor = engine.Tensor

func per(dims []int64) int64 {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return n
}

func bytesOf(t *testing.T, w *onnx.Tensor) []byte {
	t.Helper()
	b, err := w.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
