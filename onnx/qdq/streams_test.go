package qdq_test

import (
	"slices"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/qdq"
)

// stream returns y = norm(x+f)·w for f = x·v, whose result r = y+x no norm
// reads.
func stream() (*onnx.Model, map[string]qdq.Range) {
	m := onnx.New("stream", 17)
	g := &m.Graph
	g.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 2, 2)}
	g.Outputs = []onnx.Value{onnx.TensorValue("r", onnx.FLOAT, 2, 2)}
	w := g.Constant(onnx.Floats("w", []int64{2, 2}, []float32{1, -1, 0.5, 2}))
	scale := g.Constant(onnx.Floats("scale", []int64{2}, []float32{1, 1}))
	g.Add("MatMul", []string{"x", w}, "f")
	g.Add("Add", []string{"x", "f"}, "sum")
	g.Add("LayerNormalization", []string{"sum", scale}, "normed")
	g.Add("MatMul", []string{"normed", w}, "y")
	g.Add("Add", []string{"y", "x"}, "r")
	ranges := make(map[string]qdq.Range)
	for _, name := range []string{"x", "f", "sum", "normed", "y", "r"} {
		ranges[name] = qdq.Range{Low: -4, High: 4}
	}
	return m, ranges
}

// Of two sums, the one that a norm reads stays floats with values of eight
// bits, and is computed in integers with sixteen.
func TestStreams(t *testing.T) {
	for bits, want := range map[int][]string{8: {"sum"}, 16: nil} {
		m, ranges := stream()
		q, err := qdq.Insert(m, ranges, qdq.Options{Values: bits})
		if err != nil {
			t.Fatal(err)
		}
		var kept []string
		for _, k := range q.Kept {
			if k.Op == "Add" {
				kept = append(kept, k.Nodes...)
			}
		}
		if !slices.Equal(kept, want) {
			t.Errorf("%d bits: float sums: got %v, want %v", bits, kept, want)
		}
	}
}
