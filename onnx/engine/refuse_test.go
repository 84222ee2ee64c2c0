package engine_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
)

// A convolution with too few inputs before a normalization by constants is
// refused by name: only supported operators are fused.
func TestRefusedBeforeFused(t *testing.T) {
	for _, inputs := range [][]string{{"x"}, {"x", "w", "b", "b", "b", "b", "b"}} {
		m := onnx.New("g", 17)
		g := &m.Graph
		g.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, 1, 1, 4, 4)}
		one := func(name string, dims ...int64) string {
			return g.Constant(onnx.Floats(name, dims, []float32{1}))
		}
		one("w", 1, 1, 1, 1)
		one("b", 1)
		y := g.Add("Conv", inputs, "y")
		g.Add("BatchNormalization", []string{y, one("s", 1), one("o", 1), one("m", 1), one("v", 1)}, "z")
		g.Outputs = []onnx.Value{onnx.TensorValue("z", onnx.FLOAT, 1, 1, 4, 4)}
		if p, err := engine.Compile(t.Context(), m, engine.Options{Threads: 1}); err == nil || !strings.Contains(err.Error(), "operator Conv with ") {
			t.Errorf("%d inputs: %v, %v", len(inputs), p, err)
		}
	}
}
