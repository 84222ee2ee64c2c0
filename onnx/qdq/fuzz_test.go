package qdq_test

import (
	"bytes"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/onnxtest"
	"mm-abi.org/mm/onnx/qdq"
)

// FuzzRewrite rewrites every valid model in every way: the results can be
// written and are valid.
func FuzzRewrite(f *testing.F) {
	var b bytes.Buffer
	if _, err := onnx.Write(&b, net(12)); err != nil {
		f.Fatal(err)
	}
	for seed := range uint64(64) {
		f.Add(onnxtest.Mutate(b.Bytes(), seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := onnx.Parse(data)
		if err != nil {
			return
		}
		onnx.QuantizationOf(m)
		onnx.Precision(m)
		for _, p := range m.Check(onnx.CheckOptions{}) {
			if !p.Warning {
				m.Strip(onnx.StripOptions{})
				return
			}
		}
		sound := func(what string, m *onnx.Model) {
			for _, p := range m.Check(onnx.CheckOptions{}) {
				if !p.Warning {
					t.Fatalf("%s: %v", what, p)
				}
			}
			if _, err := onnx.Write(&bytes.Buffer{}, m); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		sound("stripped", m.Strip(onnx.StripOptions{}))
		if small, _, err := qdq.QuantizeWeights(m, qdq.WeightOptions{MinElements: 8}); err == nil {
			sound("quantised", small)
		}
		for i := range m.Graph.Nodes {
			for _, name := range m.Graph.Nodes[i].Outputs {
				if cut, err := m.Cut(name); err == nil {
					sound("cut at "+name, cut)
				}
			}
		}
	})
}
