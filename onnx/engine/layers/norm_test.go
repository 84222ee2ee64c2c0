package layers_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/onnxtest"
)

func TestLayerNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, shape := range [][]int{{1}, {3, 1}, {7, 5}, {40, 96}, {2, 300, 17}} {
		n := shape[len(shape)-1]
		x, gain, bias := onnxtest.Gauss(r, shape...), onnxtest.Gauss(r, n), onnxtest.Gauss(r, n)
		v, want := kernel.Elements[float32](x), []float64(nil)
		for i := 0; i < len(v); i += n {
			var mean, square float64
			for _, e := range v[i : i+n] {
				mean += float64(e) / float64(n)
			}
			for _, e := range v[i : i+n] {
				square += (float64(e) - mean) * (float64(e) - mean) / float64(n)
			}
			for k, e := range v[i : i+n] {
				want = append(want, (float64(e)-mean)/math.Sqrt(square+0.01)*float64(kernel.Elements[float32](gain)[k])+float64(kernel.Elements[float32](bias)[k]))
			}
		}
		tr := onnxtest.Trial{Node: onnxtest.Node("LayerNormalization", onnx.Float("epsilon", 0.01)), In: []*kernel.Array{x, gain, bias}}
		onnxtest.Approx(t, fmt.Sprint(shape), tr.Same(t, "LayerNormalization")[0], shape, want, 2e-6)
	}
}
