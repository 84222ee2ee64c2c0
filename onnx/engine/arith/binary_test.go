package arith_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/onnxtest"
)

func TestBroadcast(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	ops := map[string]func(a, b float64) float64{
		"Add": func(a, b float64) float64 { return a + b }, "Sub": func(a, b float64) float64 { return a - b },
		"Mul": func(a, b float64) float64 { return a * b }, "Div": func(a, b float64) float64 { return a / b },
		"Max": math.Max, "Min": math.Min,
	}
	for _, s := range [][2][]int{{{}, {}}, {{7}, {}}, {{}, {7}}, {{1}, {1, 1, 1}}, {{3, 40}, {40}}, {{40}, {3, 40}}, {{3, 40}, {3, 1}}, {{3, 1}, {3, 40}}, {{3, 1}, {1, 40}}, {{2, 3, 5, 7}, {3, 1, 7}}, {{2, 1, 300, 1}, {1, 4, 1, 50}}, {{4, 0}, {1}}} {
		for name, f := range ops {
			a, b := onnxtest.Gauss(r, s[0]...), onnxtest.Gauss(r, s[1]...)
			for _, v := range kernel.Elements[float32](b) { // avoid divisors near 0
				if math.Abs(float64(v)) < 0.01 {
					b = onnxtest.Gauss(r, s[1]...)
				}
			}
			shape, err := kernel.Broadcast(a.Shape, b.Shape)
			if err != nil {
				t.Fatal(err)
			}
			sa, sb := kernel.Stretch(a.Shape, shape), kernel.Stretch(b.Shape, shape)
			want := make([]float64, kernel.Product(shape))
			for i := range want {
				ai, bi, rest := 0, 0, i
				for k := len(shape) - 1; k >= 0; k-- {
					ai, bi, rest = ai+rest%shape[k]*sa[k], bi+rest%shape[k]*sb[k], rest/shape[k]
				}
				want[i] = f(float64(kernel.Elements[float32](a)[ai]), float64(kernel.Elements[float32](b)[bi]))
			}
			onnxtest.Approx(t, fmt.Sprint(name, s), onnxtest.Trial{Node: onnxtest.Node(name), In: []*kernel.Array{a, b}}.Same(t, name)[0], shape, want, 1e-6)
		}
	}
}

// NaN propagates from either operand.
func TestExtremesOfNaN(t *testing.T) {
	nan := float32(math.NaN())
	for _, name := range []string{"Max", "Min"} {
		for _, in := range [][]*kernel.Array{
			{onnxtest.Floats([]int{9}, []float32{nan, 1, 1, 1, 1, 1, 1, 1, 1}), onnxtest.Floats(nil, []float32{0})},
			{onnxtest.Floats(nil, []float32{0}), onnxtest.Floats([]int{9}, []float32{nan, 1, 1, 1, 1, 1, 1, 1, 1})},
			{onnxtest.Floats([]int{9}, make([]float32, 9)), onnxtest.Floats(nil, []float32{nan})},
			{onnxtest.Floats([]int{1}, []float32{nan}), onnxtest.Floats([]int{1}, []float32{0})},
		} {
			got := kernel.Elements[float32](onnxtest.Trial{Node: onnxtest.Node(name), In: in}.Same(t, name)[0])
			if got[0] == got[0] {
				t.Errorf("%s of NaN and a number: got %v", name, got)
			}
		}
	}
}
