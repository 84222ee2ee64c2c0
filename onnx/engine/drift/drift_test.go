package drift_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
)

// scaled returns the model y = x·[1, 2, by].
func scaled(by float32) *onnx.Model {
	m := onnx.New("m", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, "N", 3)}
	m.Graph.Add("Mul", []string{"x", m.Graph.Constant(onnx.Floats("w", []int64{3}, []float32{1, 2, by}))}, "y")
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, "N", 3)}
	return m
}

// same returns the model y = x.
func same() *onnx.Model {
	m := onnx.New("m", 17)
	m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, "N", 3)}
	m.Graph.Add("Identity", []string{"x"}, "y")
	m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, "N", 3)}
	return m
}

func row(v ...float32) engine.Tensor {
	t := engine.Tensor{Type: onnx.FLOAT, Shape: []int{len(v) / 3, 3}}
	for _, x := range v {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(x))
	}
	return t
}

func TestMeasure(t *testing.T) {
	in := []map[string]engine.Tensor{{"x": row(1, 1, 1, 3, 1, 0)}, {"x": row(1, 0, 0)}}
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
		t.Errorf("identical models: %+v, %v", out, err)
	}
	if _, err := drift.Measure(t.Context(), scaled(1), scaled(float32(math.NaN())), in, drift.Options{}); err == nil || !strings.Contains(err.Error(), "NaN after") {
		t.Errorf("NaN: %v", err)
	}
	if _, err := drift.Measure(t.Context(), scaled(1), scaled(1), nil, drift.Options{}); err == nil {
		t.Error("no error without inputs")
	}
}

// Equal infinities are ignored; every other non-finite element is an error.
func TestInfinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	of := func(v ...float32) func(context.Context, map[string]engine.Tensor) (map[string]engine.Tensor, error) {
		return func(context.Context, map[string]engine.Tensor) (map[string]engine.Tensor, error) {
			return map[string]engine.Tensor{"y": row(v...)}, nil
		}
	}
	for name, tc := range map[string]struct {
		x, y []float32
		want string // of the error; "": cosine 1
	}{
		"equal":              {[]float32{1, inf, 2}, []float32{1, inf, 2}, ""},
		"both NaN":           {[]float32{1, nan, 2}, []float32{1, nan, 2}, "element 1: NaN before, NaN after"},
		"all infinite":       {[]float32{-inf, inf, inf}, []float32{-inf, inf, inf}, ""},
		"opposite sign":      {[]float32{1, inf, 2}, []float32{1, -inf, 2}, "element 1: +Inf before, -Inf after"},
		"no longer infinite": {[]float32{1, -inf, 2}, []float32{1, -65504, 2}, "element 1: -Inf before, -65504 after"},
		"infinite now":       {[]float32{1, 7e4, 2}, []float32{1, inf, 2}, "element 1: 70000 before, +Inf after"},
		"NaN now":            {[]float32{1, inf, 2}, []float32{1, nan, 2}, "element 1: +Inf before, NaN after"},
		"a number now":       {[]float32{1, 2, nan}, []float32{1, 2, 3}, "element 2: NaN before, 3 after"},
	} {
		out, err := drift.Against(t.Context(), same(), of(tc.y...), []map[string]engine.Tensor{{"x": row(tc.x...)}}, drift.Options{})
		if tc.want == "" {
			if err != nil || out[0].Cosine < 1-1e-12 || out[0].MaxAbs != 0 {
				t.Errorf("%s: %+v, %v", name, out, err)
			}
			continue
		}
		u := (*drift.Unlike)(nil)
		if !errors.As(err, &u) || u.Output != "y" || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
		if c := drift.Cosine(row(tc.x...), row(tc.y...)); c != 0 {
			t.Errorf("%s: cosine %v", name, c)
		}
	}
	big := engine.Tensor{Type: onnx.DOUBLE, Shape: []int{1}, Data: binary.LittleEndian.AppendUint64(nil, math.Float64bits(1e200))}
	if c := drift.Cosine(big, big); c != 0 {
		t.Errorf("overflowing squares: cosine %v", c)
	}
}

func TestNoise(t *testing.T) {
	m := scaled(1)
	a, err := drift.Noise(m, nil, 3)
	if err != nil || len(a["x"].Shape) != 2 || a["x"].Shape[0] != 1 || len(a["x"].Data) != 12 {
		t.Fatalf("%+v, %v", a, err)
	}
	if b, _ := drift.Noise(m, nil, 3); string(b["x"].Data) != string(a["x"].Data) {
		t.Error("noise is not deterministic")
	}
	if b, _ := drift.Noise(m, nil, 4); string(b["x"].Data) == string(a["x"].Data) {
		t.Error("noise does not depend on the seed")
	}
	if b, err := drift.Noise(m, map[string][]int{"x": {5, 3}}, 3); err != nil || len(b["x"].Data) != 60 {
		t.Errorf("%+v, %v", b, err)
	}
	if !drift.Generable(drift.MaxNoise/4, 4) || drift.Generable(drift.MaxNoise/4+1, 4) || drift.Generable(1, 0) {
		t.Error("MaxNoise is not the limit")
	}
	m.Graph.Inputs[0] = onnx.TensorValue("x", onnx.FLOAT, 1, "T")
	for want, shapes := range map[string]map[string][]int{
		"open shape":      nil,
		"want [1 T]":      {"x": {1}},
		`unknown input`:   {"x": {1, 3}, "z": {1}},
		"cannot generate": {"x": {1 << 20, 1 << 20}},
	} {
		if _, err := drift.Noise(m, shapes, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", shapes, err, want)
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
			t.Errorf("%s: read", bad)
		}
	}
}
