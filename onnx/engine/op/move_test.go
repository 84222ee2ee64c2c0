package op_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/onnxtest"
)

// permutations returns the permutations of n dimensions.
func permutations(n int) [][]int64 {
	if n == 0 {
		return [][]int64{nil}
	}
	var out [][]int64
	for _, p := range permutations(n - 1) {
		for i := range n {
			out = append(out, slices.Insert(slices.Clone(p), i, int64(n-1)))
		}
	}
	return out
}

func TestTranspose(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, shape := range [][]int{{}, {3}, {0, 3}, {5, 7}, {1, 200, 3}, {1, 3, 200}, {2, 3, 40, 50}, {2, 1, 17, 4, 3}, {70, 9, 130}} {
		for _, kind := range []onnx.DType{onnx.UINT8, onnx.FLOAT16, onnx.FLOAT, onnx.DOUBLE} {
			size := kernel.Size(kind)
			x := onnxtest.Bytes8(r, kind, shape...)
			strides := kernel.Strides(shape)
			for _, perm := range permutations(len(shape)) {
				to := make([]int, len(shape))
				for i, p := range perm {
					to[i] = shape[p]
				}
				want := make([]byte, 0, len(x.Bytes()))
				for i := range x.Len() {
					at, rest := 0, i
					for k := len(to) - 1; k >= 0; k-- {
						at += rest % to[k] * strides[perm[k]]
						rest /= to[k]
					}
					want = append(want, x.Bytes()[at*size:(at+1)*size]...)
				}
				name := fmt.Sprint(shape, kind, perm)
				got := onnxtest.Trial{Node: onnxtest.Node("Transpose", onnx.IntList("perm", perm...)), In: []*kernel.Array{x}}.Same(t, name)[0]
				if !slices.Equal(got.Shape, to) || !bytes.Equal(got.Bytes(), want) {
					t.Fatalf("%s: %v: elements differ", name, got.Shape)
				}
			}
		}
	}
}

// Slices with steps of either sign, and broadcasts, use the same walk.
func TestSlice(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	x := onnxtest.Gauss(r, 5, 9, 11)
	v := kernel.Elements[float32](x)
	for range 200 {
		var starts, ends, steps [3]int64
		var index [3][]int
		for k, d := range x.Shape {
			starts[k], steps[k] = int64(r.IntN(d)), int64(r.IntN(3)+1)
			ends[k] = starts[k] + int64(r.IntN(d-int(starts[k])+1))
			for i := starts[k]; i < ends[k]; i += steps[k] {
				index[k] = append(index[k], int(i))
			}
			if r.IntN(2) == 0 { // backward
				steps[k], starts[k], ends[k], index[k] = -steps[k], int64(d-1), math.MinInt64, nil
				for i := d - 1; i >= 0; i += int(steps[k]) {
					index[k] = append(index[k], i)
				}
			}
		}
		var want []float64
		for _, i := range index[0] {
			for _, j := range index[1] {
				for _, k := range index[2] {
					want = append(want, float64(v[(i*9+j)*11+k]))
				}
			}
		}
		tr := onnxtest.Trial{Node: onnxtest.Node("Slice"), In: []*kernel.Array{x, onnxtest.Longs(starts[:]...), onnxtest.Longs(ends[:]...), onnxtest.Longs(0, 1, 2), onnxtest.Longs(steps[:]...)}}
		onnxtest.Approx(t, fmt.Sprint(starts, ends, steps), tr.Same(t, "Slice")[0], []int{len(index[0]), len(index[1]), len(index[2])}, want, 0)
	}
}
