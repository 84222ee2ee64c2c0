package image_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/onnxtest"
)

// Images without elements are resized to others without elements.
func TestResizeEmpty(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, mode := range []string{"nearest", "linear", "cubic"} {
		in := []*kernel.Array{onnxtest.Gauss(r, 1, 3, 0), nil, nil, onnxtest.Longs(1, 0, 4)}
		out, err := onnxtest.Trial{Node: onnxtest.Node("Resize", onnx.String("mode", mode)), In: in}.Run(t, 1)
		if err != nil || !slices.Equal(out[0].Shape, []int{1, 0, 4}) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}
