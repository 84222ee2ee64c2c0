package engine_test

import (
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
)

// A convolution without weights is refused, and the fusions that would join it
// with the next node do not panic.
func TestConvolutionWithoutWeights(t *testing.T) {
	for _, inputs := range [][]string{{"x"}, {"x", ""}} {
		for _, next := range []string{"BatchNormalization", "Relu", "Mul", "Add"} {
			m := onnx.New("bare", 17)
			m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 1, 2, 4, 4)}
			m.Graph.Outputs = []onnx.Value{onnx.TensorValue("y", onnx.FLOAT, 1, 2, 4, 4)}
			c := m.Graph.Constant(onnx.Floats("c", []int64{2}, []float32{1, 2}))
			m.Graph.Add("Conv", inputs, "z")
			in := map[string][]string{"BatchNormalization": {"z", c, c, c, c}, "Relu": {"z"}}[next]
			if in == nil {
				in = []string{"z", c}
			}
			m.Graph.Add(next, in, "y")
			p, err := engine.Compile(t.Context(), m, engine.Options{Threads: 1})
			if err == nil {
				_, err = p.Run(t.Context(), map[string]engine.Tensor{"x": {Type: onnx.FLOAT, Shape: []int{1, 2, 4, 4}, Data: make([]byte, 4*32)}})
				p.Close()
			}
			if err == nil {
				t.Errorf("%q followed by %s: compiled", inputs, next)
			}
		}
	}
}
