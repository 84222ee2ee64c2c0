package product_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/onnxtest"
)

// Integer products are exact.
func TestMatMulInteger(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, s := range [][2][]int{{{1, 1}, {1, 1}}, {{3, 17}, {17, 5}}, {{40, 33}, {33, 70}}, {{2, 3, 20}, {20, 9}}, {{2, 3, 20}, {2, 20, 9}}, {{4}, {4, 3}}, {{0, 4}, {4, 3}}, {{2, 0}, {0, 3}}} {
		for _, kinds := range [][2]onnx.DType{{onnx.UINT8, onnx.INT8}, {onnx.INT8, onnx.UINT8}} {
			for _, zeros := range []int{0, 1, 2} { // none, one, one a row and a column
				a, b := onnxtest.Bytes8(r, kinds[0], s[0]...), onnxtest.Bytes8(r, kinds[1], s[1]...)
				in := []*kernel.Array{a, b, nil, nil}
				rows, cols := 1, 1
				if zeros == 2 {
					if cols = b.Dim(-1); a.Rank() > 1 {
						rows = a.Dim(-2)
					}
				}
				if zeros > 0 {
					in[2], in[3] = onnxtest.Bytes8(r, kinds[0], rows), onnxtest.Bytes8(r, kinds[1], cols)
				}
				if rows == 0 {
					continue
				}
				g, err := kernel.Factors(a.Shape, b.Shape)
				if err != nil {
					t.Fatal(err)
				}
				value := func(x *kernel.Array, i int) int32 {
					if x == nil {
						return 0
					}
					if x.Type == onnx.INT8 {
						return int32(kernel.Elements[int8](x)[i])
					}
					return int32(kernel.Elements[uint8](x)[i])
				}
				var want []int32
				for i := range g.Batches {
					ai, bi := g.At(i)
					for m := range g.M {
						for n := range g.N {
							var sum int32
							for k := range g.K {
								sum += (value(a, (ai*g.M+m)*g.K+k) - value(in[2], m%rows)) * (value(b, (bi*g.K+k)*g.N+n) - value(in[3], n%cols))
							}
							want = append(want, sum)
						}
					}
				}
				for _, fixed := range []bool{false, true} {
					name := fmt.Sprint(factorsName(s[0], s[1]), kinds, zeros, fixed)
					got := onnxtest.Trial{Node: onnxtest.Node("MatMulInteger"), In: in, Fixed: []bool{false, fixed, false, fixed}}.Same(t, name)[0]
					if got.Len() != len(want) {
						t.Fatalf("%s: %v", name, got.Shape)
					}
					for i, v := range kernel.Elements[int32](got) {
						if v != want[i] {
							t.Fatalf("%s: element %d: got %d, want %d", name, i, v, want[i])
						}
					}
				}
			}
		}
	}
}

func factorsName(a, b []int) string { return fmt.Sprintf("%v times %v", a, b) }
