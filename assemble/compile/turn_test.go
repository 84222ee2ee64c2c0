package compile_test

import (
	"math"
	"strings"
	"testing"

	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/onnx/engine/drift"
	"mm-abi.org/mm/onnx/qdq"
)

// A product with a constant in front whose rows are not full is written the
// other way about and has the same result; others stay as they are.
func TestTurn(t *testing.T) {
	numbers := func(dims []int64) []float32 {
		n := int64(1)
		for _, d := range dims {
			n *= d
		}
		out := make([]float32, n)
		for i := range out {
			out[i] = float32(math.Sin(float64(i * i)))
		}
		return out
	}
	for name, c := range map[string]struct {
		a, b, y  []int64
		constant string // which factor: "a" or "b"
		want     string // operators
	}{
		"rows of 24":        {[]int64{1, 4, 6, 24}, []int64{1, 4, 24, 5}, []int64{1, 4, 6, 5}, "a", "Neg Transpose MatMul Transpose Relu"},
		"two axes":          {[]int64{6, 24}, []int64{24, 5}, []int64{6, 5}, "a", "Neg Transpose MatMul Transpose Relu"},
		"one for all heads": {[]int64{6, 24}, []int64{2, 3, 24, 5}, []int64{2, 3, 6, 5}, "a", "Neg Transpose MatMul Transpose Relu"},
		"many for one":      {[]int64{2, 3, 6, 24}, []int64{24, 5}, []int64{2, 3, 6, 5}, "a", "Neg Transpose MatMul Transpose Relu"},
		"full rows":         {[]int64{6, 64}, []int64{64, 5}, []int64{6, 5}, "a", "Neg MatMul Relu"},
		"constant behind":   {[]int64{6, 24}, []int64{24, 5}, []int64{6, 5}, "b", "Neg MatMul Relu"},
		"a vector":          {[]int64{6, 24}, []int64{24}, []int64{6}, "a", "Neg MatMul Relu"},
	} {
		t.Run(name, func(t *testing.T) {
			m := onnx.New("m", 17)
			fixed, open := c.a, c.b
			if c.constant == "b" {
				fixed, open = c.b, c.a
			}
			m.Graph.Inputs = []onnx.Value{onnx.TensorValue("x", onnx.FLOAT, dims(open)...)}
			m.Graph.Outputs = []onnx.Value{onnx.TensorValue("z", onnx.FLOAT, dims(c.y)...)}
			m.Graph.Initializers = []onnx.Tensor{onnx.Floats("c", fixed, numbers(fixed))}
			m.Graph.Add("Neg", []string{"x"}, "n")
			factors := []string{"c", "n"}
			if c.constant == "b" {
				factors = []string{"n", "c"}
			}
			m.Graph.Add("MatMul", factors, "y")
			m.Graph.Add("Relu", []string{"y"}, "z")
			x := onnx.Floats("x", open, numbers(open))
			in := engine.Tensor{Type: onnx.FLOAT, Data: x.Raw}
			for _, d := range open {
				in.Shape = append(in.Shape, int(d))
			}
			sets := []map[string]engine.Tensor{{"x": in}}
			f, err := qdq.Freeze(t.Context(), m, sets, qdq.FreezeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := compile.Turn(f); err != nil {
				t.Fatal(err)
			}
			var ops []string
			for _, n := range f.Model.Graph.Nodes {
				ops = append(ops, n.Op)
				if _, ok := f.Ranges[n.Outputs[0]]; !ok {
					t.Errorf("%s has no range", n.Outputs[0])
				}
			}
			if got := strings.Join(ops, " "); got != c.want {
				t.Errorf("it is %s, not %s", got, c.want)
			}
			if n := len(f.Model.Graph.Initializers); n != 1 {
				t.Errorf("%d constants", n)
			}
			out, err := drift.Measure(t.Context(), m, f.Model, sets, drift.Options{})
			if err != nil || drift.Drift(out) > 1e-6 {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}
}

func dims(d []int64) (out []any) {
	for _, v := range d {
		out = append(out, v)
	}
	return out
}
