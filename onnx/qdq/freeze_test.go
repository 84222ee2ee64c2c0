package qdq_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/onnx/qdq"
)

// floats returns a constant of n pseudorandom numbers.
func floats(m *onnx.Model, name string, dims ...int64) string {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(math.Sin(float64(i*i%97)+float64(len(name)))) / 2
	}
	return m.Graph.Constant(onnx.Floats(name, dims, values))
}

// block returns a part of a transformer with an open batch dimension: a norm, a
// product whose result is reshaped by a Shape, GELU in five nodes, a sum, a
// softmax.
func block(opset int64) *onnx.Model {
	m := onnx.New("block", opset)
	g := &m.Graph
	g.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, "N", 4, 16)}
	g.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, "N", 4, 16)}
	norm := g.Add("LayerNormalization", []string{"x", floats(m, "gain", 16), floats(m, "shift", 16)}, "norm", onnx.Int("axis", -1))
	up := g.Add("Add", []string{g.Add("MatMul", []string{norm, floats(m, "up.weight", 16, 32)}, "up"), floats(m, "up.bias", 32)}, "up.biased")
	number := func(name string, v float32) string { return g.Constant(onnx.Floats(name, nil, []float32{v})) }
	erf := g.Add("Erf", []string{g.Add("Div", []string{up, number("root2", math.Sqrt2)}, "root")}, "erf")
	twice := g.Add("Mul", []string{up, g.Add("Add", []string{erf, number("one", 1)}, "erf.one")}, "twice")
	gelu := g.Add("Mul", []string{twice, number("half", 0.5)}, "gelu")
	down := g.Add("MatMul", []string{gelu, floats(m, "down.weight", 32, 16)}, "down")
	g.Add("Shape", []string{"x"}, "shape")
	shaped := g.Add("Reshape", []string{down, "shape"}, "shaped")
	sum := g.Add("Add", []string{"x", shaped}, "sum")
	g.Add("Softmax", []string{sum}, "y", onnx.Int("axis", -1))
	return m
}

func inputs(t *testing.T, m *onnx.Model, n int) (out []map[string]engine.Tensor) {
	t.Helper()
	for i := range n {
		in, err := drift.Noise(m, map[string][]int{"x": {2, 4, 16}}, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, in)
	}
	return out
}

func TestFreeze(t *testing.T) {
	m := block(17)
	in := inputs(t, m, 3)
	f, err := qdq.Freeze(t.Context(), m, in, qdq.FreezeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if f.Folded != 1 || len(f.Model.Graph.Nodes) != len(m.Graph.Nodes)-1 {
		t.Errorf("%d folded, %d nodes of %d", f.Folded, len(f.Model.Graph.Nodes), len(m.Graph.Nodes))
	}
	for _, v := range slices.Concat(f.Model.Graph.Inputs, f.Model.Graph.Outputs, f.Model.Graph.Values) {
		for _, d := range v.Type.Dims {
			if d.Value < 1 || d.Param != "" {
				t.Errorf("%s: dimension %s is not fixed", v.Name, d)
			}
		}
	}
	out, err := drift.Measure(t.Context(), m, f.Model, in, drift.Options{})
	if err != nil || out[0].MaxAbs > 1e-6 {
		t.Errorf("%+v, %v", out, err)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range in {
		for at := 0; at < len(s["x"].Data); at += 4 {
			v := float64(math.Float32frombits(binary.LittleEndian.Uint32(s["x"].Data[at:])))
			low, high = min(low, v), max(high, v)
		}
	}
	if r := f.Ranges["x"]; r.Low != low || r.High != high {
		t.Errorf("range of x: got %v, want [%v, %v]", r, low, high)
	}
	if r := f.Ranges["y"]; r.Low < 0 || r.High > 1 || r.High <= r.Low {
		t.Errorf("range of a softmax: %v", r)
	}
}

func TestNotFrozen(t *testing.T) {
	if _, err := qdq.Freeze(t.Context(), block(17), nil, qdq.FreezeOptions{}); err == nil {
		t.Error("no error without inputs")
	}
	// Two shapes of one input, and a shape that depends on values.
	m := block(17)
	two := inputs(t, m, 2)
	two[1]["x"] = engine.Tensor{Type: onnx.FLOAT, Shape: []int{1, 4, 16}, Data: two[1]["x"].Data[:4*64]}
	if _, err := qdq.Freeze(t.Context(), m, two, qdq.FreezeOptions{}); err == nil || !strings.Contains(err.Error(), "x") {
		t.Errorf("two shapes: %v", err)
	}
	loose := onnx.New("loose", 17)
	loose.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 4)}
	loose.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.INT64, 1, "n")}
	loose.Graph.Add("NonZero", []string{"x"}, "y")
	of := func(v ...float32) map[string]engine.Tensor {
		var raw []byte
		for _, x := range v {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
		return map[string]engine.Tensor{"x": {Type: onnx.FLOAT, Shape: []int{4}, Data: raw}}
	}
	_, err := qdq.Freeze(t.Context(), loose, []map[string]engine.Tensor{of(1, 0, 0, 1), of(1, 1, 1, 1)}, qdq.FreezeOptions{})
	if err == nil || !strings.Contains(err.Error(), `"y"`) {
		t.Errorf("shape that depends on values: %v", err)
	}
	// A result that does not depend on the inputs.
	still := onnx.New("still", 17)
	still.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 4)}
	still.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.INT64, 1)}
	still.Graph.Add("Shape", []string{"x"}, "y")
	if _, err := qdq.Freeze(t.Context(), still, []map[string]engine.Tensor{of(1, 2, 3, 4)}, qdq.FreezeOptions{}); err == nil {
		t.Error("constant result accepted")
	}
}

// Quantized with the observed ranges, the model is close to the original,
// closer with 16 bits, deterministic, and its norm is computed in floats.
func TestQuantized(t *testing.T) {
	m := block(17)
	in := inputs(t, m, 4)
	f, err := qdq.Freeze(t.Context(), m, in, qdq.FreezeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	far := map[int]float64{}
	for _, bits := range []int{8, 16} {
		q, err := qdq.Insert(f.Model, f.Ranges, qdq.Options{Values: bits})
		if err != nil {
			t.Fatal(err)
		}
		var texts [2]bytes.Buffer
		for i := range texts {
			again, err := qdq.Insert(f.Model, f.Ranges, qdq.Options{Values: bits})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := onnx.Write(&texts[i], again.Model); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(texts[0].Bytes(), texts[1].Bytes()) {
			t.Errorf("%d bits: output is not deterministic", bits)
		}
		read, err := onnx.Parse(texts[0].Bytes())
		if err != nil {
			t.Fatal(err)
		}
		out, err := drift.Measure(t.Context(), m, read, in, drift.Options{})
		if err != nil {
			t.Fatal(err)
		}
		far[bits] = drift.Drift(out)
		if far[bits] > 0.001 {
			t.Errorf("%d bits: %+v", bits, out)
		}
		if len(q.Kept) != 1 || q.Kept[0].Op != "LayerNormalization" {
			t.Errorf("%d bits: kept %+v", bits, q.Kept)
		}
		if q.Quantized != 7 { // two products, two sums, GELU, Reshape, Softmax
			t.Errorf("%d bits: %d integer nodes", bits, q.Quantized)
		}
	}
	if far[16] >= far[8] || far[8] == 0 {
		t.Errorf("drift of 16 bits %v, of 8 bits %v", far[16], far[8])
	}
}
