package arith_test

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/onnxtest"
)

// Transforms equal their definition, for lengths with prime factors up to
// maxFactor and beyond it.
func TestDFT(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 2, 6, 31, 37, 62, 74, 31 * 31, 37 * 8, 512, 1021} {
		x := onnxtest.Gauss(r, 1, n, 2)
		for _, inverse := range []int64{0, 1} {
			out, err := onnxtest.Trial{Node: onnxtest.Node("DFT", onnx.Int("inverse", inverse)), In: []*kernel.Array{x}}.Run(t, 1)
			if err != nil {
				t.Fatal(err)
			}
			from, got := kernel.Elements[float32](x), kernel.Elements[float32](out[0])
			for k := range n {
				want, sign, by := complex128(0), -1.0, 1.0
				if inverse != 0 {
					sign, by = 1, 1/float64(n)
				}
				for i := range n {
					want += complex(float64(from[2*i]), float64(from[2*i+1])) * cmplx.Rect(by, sign*2*math.Pi*float64(i*k%n)/float64(n))
				}
				if d := cmplx.Abs(want - complex(float64(got[2*k]), float64(got[2*k+1]))); d > 1e-4*(1+cmplx.Abs(want)) {
					t.Fatalf("length %d, inverse %d: bin %d differs by %v", n, inverse, k, d)
				}
			}
		}
	}
}
