package drift_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"mm-abi.org/mm/core/graph"
	"mm-abi.org/mm/core/graph/drift"
	"mm-abi.org/mm/core/onnx"
)

// scaled is y = x·[1, 2, by].
func scaled(by float32) *onnx.Model {
	m := onnx.New("m", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, "N", 3)}
	m.Graph.Add("Mul", []string{"x", m.Graph.Constant(onnx.Floats("w", []int64{3}, []float32{1, 2, by}))}, "y")
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, "N", 3)}
	return m
}

func row(v ...float32) graph.Tensor {
	t := graph.Tensor{Type: onnx.FLOAT, Shape: []int{len(v) / 3, 3}}
	for _, x := range v {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(x))
	}
	return t
}

func TestMeasure(t *testing.T) {
	in := []map[string]graph.Tensor{{"x": row(1, 1, 1, 3, 1, 0)}, {"x": row(1, 0, 0)}}
	out, err := drift.Measure(t.Context(), scaled(1), scaled(4), in, drift.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// 1 2 1, 3 2 0, 1 0 0 against 1 2 4, 3 2 0, 1 0 0.
	want := (1 + 4 + 4 + 9 + 4 + 1) / math.Sqrt((1+4+1+9+4+1)*(1+4+16+9+4+1))
	if o := out[0]; o.Name != "y" || math.Abs(o.Cosine-want) > 1e-12 || o.MaxAbs != 3 || o.Rows != 3 || o.Agree != 2 {
		t.Errorf("%+v, cosine %v", o, want)
	}
	if d := drift.Drift(out); math.Abs(d-(1-want)) > 1e-12 {
		t.Errorf("drift %v", d)
	}
	if out, err := drift.Measure(t.Context(), scaled(1), scaled(1), in, drift.Options{}); err != nil || drift.Drift(out) > 1e-12 || out[0].Agree != 3 {
		t.Errorf("the same: %+v, %v", out, err)
	}
	if _, err := drift.Measure(t.Context(), scaled(1), scaled(float32(math.NaN())), in, drift.Options{}); err == nil || !strings.Contains(err.Error(), "is no number now") {
		t.Errorf("no number: %v", err)
	}
	if _, err := drift.Measure(t.Context(), scaled(1), scaled(1), nil, drift.Options{}); err == nil {
		t.Error("nothing was measured")
	}
}

func TestNoise(t *testing.T) {
	m := scaled(1)
	a, err := drift.Noise(m, nil, 3)
	if err != nil || len(a["x"].Shape) != 2 || a["x"].Shape[0] != 1 || len(a["x"].Data) != 12 {
		t.Fatalf("%+v, %v", a, err)
	}
	if b, _ := drift.Noise(m, nil, 3); string(b["x"].Data) != string(a["x"].Data) {
		t.Error("the same seed gave other noise")
	}
	if b, _ := drift.Noise(m, nil, 4); string(b["x"].Data) == string(a["x"].Data) {
		t.Error("another seed gave the same noise")
	}
	if b, err := drift.Noise(m, map[string][]int{"x": {5, 3}}, 3); err != nil || len(b["x"].Data) != 60 {
		t.Errorf("%+v, %v", b, err)
	}
	m.Graph.Inputs[0] = onnx.TensorValue("x", onnx.FLOAT, 1, "T")
	for want, shapes := range map[string]map[string][]int{
		"leaves its shape open":  nil,
		"the model says [1 T]":   {"x": {1}},
		`the model has no input`: {"x": {1, 3}, "z": {1}},
		"cannot be made up":      {"x": {1 << 20, 1 << 20}},
	} {
		if _, err := drift.Noise(m, shapes, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, not %q", shapes, err, want)
		}
	}
}

func TestRead(t *testing.T) {
	head := "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n"
	file := append([]byte("\x93NUMPY\x01\x00"), byte(len(head)), 0)
	file = append(append(file, head...), 0, 0, 128, 63)
	got, err := drift.Read(file)
	if err != nil || got.Type != onnx.FLOAT || len(got.Shape) != 1 || len(got.Data) != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	if c := drift.Cosine(got, got); math.Abs(c-1) > 1e-12 {
		t.Errorf("cosine %v", c)
	}
	for _, bad := range []string{"<c8", "<U4"} {
		if _, err := drift.Read([]byte(strings.Replace(string(file), "<f4", bad, 1))); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}
