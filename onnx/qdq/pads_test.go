package qdq_test

import (
	"math"
	"slices"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/onnx/qdq"
)

// pooled returns y = maxpool(pad(relu(conv(x)))), padded with a number.
func pooled(opset int64, with float32, pads []int64, more ...onnx.Attribute) *onnx.Model {
	m := onnx.New("pooled", opset)
	g := &m.Graph
	g.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 1, 1, 6, 6)}
	w := g.Constant(onnx.Floats("w", []int64{2, 1, 2, 2}, []float32{1, -2, 0.5, 0, 1, 0.5, 0, -1}))
	g.Add("Conv", []string{"x", w}, "c")
	if opset < 11 {
		g.Add("Pad", []string{"c"}, "p", onnx.IntList("pads", pads...), onnx.Float("value", with))
	} else {
		g.Add("Pad", []string{"c", g.Constant(onnx.Ints("pads", []int64{8}, pads)), g.Constant(onnx.Floats("with", nil, []float32{with}))}, "p")
	}
	g.Add("MaxPool", []string{"p"}, "y", append([]onnx.Attribute{onnx.IntList("kernel_shape", 3, 3), onnx.IntList("strides", 2, 2)}, more...)...)
	g.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 1, 2, "H", "W")}
	return m
}

// A border of the lowest number becomes MaxPool's border, and the quantized
// model has the results of the model; other borders are unchanged.
func TestPads(t *testing.T) {
	end, none := []int64{0, 0, 0, 0, 0, 0, 1, 1}, []int64{0, 0, 0, 0, 0, 0, 0, 0}
	lowest := float32(-math.MaxFloat32)
	for name, c := range map[string]struct {
		model  *onnx.Model
		merged bool
	}{
		"of opset 7":            {pooled(7, lowest, end), true},
		"of opset 17":           {pooled(17, lowest, end), true},
		"infinite":              {pooled(17, float32(math.Inf(-1)), end), true},
		"at the beginning":      {pooled(17, lowest, []int64{0, 0, 1, 1, 0, 0, 0, 0}), true},
		"of width zero":         {pooled(17, lowest, none), true},
		"of a different number": {pooled(17, -5, end), false},
		"of zeros":              {pooled(17, 0, end), false},
		"of channels":           {pooled(17, lowest, []int64{0, 0, 0, 0, 0, 1, 0, 0}), false},
		"as wide as a kernel":   {pooled(17, lowest, []int64{0, 0, 0, 0, 0, 0, 3, 3}), false},
		"second border":         {pooled(17, lowest, end, onnx.IntList("pads", 1, 1, 1, 1)), false},
		"rounded up":            {pooled(17, lowest, end, onnx.Int("ceil_mode", 1)), false},
	} {
		in, err := drift.Noise(c.model, nil, 3)
		if err != nil {
			t.Fatal(err)
		}
		sets := []map[string]engine.Tensor{in}
		f, err := qdq.Freeze(t.Context(), c.model, sets, qdq.FreezeOptions{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		q, err := qdq.Insert(f.Model, f.Ranges, qdq.Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		merged := !slices.ContainsFunc(q.Model.Graph.Nodes, func(n onnx.Node) bool { return n.Op == "Pad" })
		if merged != c.merged {
			t.Errorf("%s: Pad merged: %v", name, merged)
		}
		if !merged {
			continue
		}
		out, err := drift.Measure(t.Context(), c.model, q.Model, sets, drift.Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if near := 1 - drift.Drift(out); !(near > 0.999) {
			t.Errorf("%s: cosine %.5f", name, near)
		}
	}
}
