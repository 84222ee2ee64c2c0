package op

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"mm-abi.org/mm/core/graph/array"
	"mm-abi.org/mm/core/graph/kernel"
	"mm-abi.org/mm/core/onnx"
)

// permutations lists the orders of n dimensions.
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
			size := array.Size(kind)
			x := bytes8(r, kind, shape...)
			own := kernel.Strides(shape)
			for _, perm := range permutations(len(shape)) {
				to := make([]int, len(shape))
				for i, p := range perm {
					to[i] = shape[p]
				}
				want := make([]byte, 0, len(x.Bytes()))
				for i := range x.Len() {
					at, rest := 0, i
					for k := len(to) - 1; k >= 0; k-- {
						at += rest % to[k] * own[perm[k]]
						rest /= to[k]
					}
					want = append(want, x.Bytes()[at*size:(at+1)*size]...)
				}
				name := fmt.Sprint(shape, kind, perm)
				got := trial{node: node("Transpose", onnx.IntList("perm", perm...)), in: []*array.Array{x}}.same(t, name)[0]
				if !slices.Equal(got.Shape, to) || !bytes.Equal(got.Bytes(), want) {
					t.Fatalf("%s: %v with other elements", name, got.Shape)
				}
			}
		}
	}
}

// Slices with steps of either sign, and broadcasts, go through the same walk.
func TestSlice(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	x := gauss(r, 5, 9, 11)
	v := array.Of[float32](x)
	for range 200 {
		var starts, ends, steps [3]int64
		var index [3][]int
		for k, d := range x.Shape {
			starts[k], steps[k] = int64(r.IntN(d)), int64(r.IntN(3)+1)
			ends[k] = starts[k] + int64(r.IntN(d-int(starts[k])+1))
			for i := starts[k]; i < ends[k]; i += steps[k] {
				index[k] = append(index[k], int(i))
			}
			if r.IntN(2) == 0 { // from the end to the beginning
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
		tr := trial{node: node("Slice"), in: []*array.Array{x, longs(starts[:]...), longs(ends[:]...), longs(0, 1, 2), longs(steps[:]...)}}
		approx(t, fmt.Sprint(starts, ends, steps), tr.same(t, "Slice")[0], []int{len(index[0]), len(index[1]), len(index[2])}, want, 0)
	}
}

func TestBroadcast(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	ops := map[string]func(a, b float64) float64{
		"Add": func(a, b float64) float64 { return a + b }, "Sub": func(a, b float64) float64 { return a - b },
		"Mul": func(a, b float64) float64 { return a * b }, "Div": func(a, b float64) float64 { return a / b },
		"Max": math.Max, "Min": math.Min,
	}
	for _, s := range [][2][]int{{{}, {}}, {{7}, {}}, {{}, {7}}, {{1}, {1, 1, 1}}, {{3, 40}, {40}}, {{40}, {3, 40}}, {{3, 40}, {3, 1}}, {{3, 1}, {3, 40}}, {{3, 1}, {1, 40}}, {{2, 3, 5, 7}, {3, 1, 7}}, {{2, 1, 300, 1}, {1, 4, 1, 50}}, {{4, 0}, {1}}} {
		for name, f := range ops {
			a, b := gauss(r, s[0]...), gauss(r, s[1]...)
			for _, v := range array.Of[float32](b) { // nothing near 0 to divide by
				if math.Abs(float64(v)) < 0.01 {
					b = gauss(r, s[1]...)
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
				want[i] = f(float64(array.Of[float32](a)[ai]), float64(array.Of[float32](b)[bi]))
			}
			approx(t, fmt.Sprint(name, s), trial{node: node(name), in: []*array.Array{a, b}}.same(t, name)[0], shape, want, 1e-6)
		}
	}
}

// What is no number stays none, whichever side it comes from.
func TestExtremesOfNaN(t *testing.T) {
	nan := float32(math.NaN())
	for _, name := range []string{"Max", "Min"} {
		for _, in := range [][]*array.Array{
			{floats([]int{9}, []float32{nan, 1, 1, 1, 1, 1, 1, 1, 1}), floats(nil, []float32{0})},
			{floats(nil, []float32{0}), floats([]int{9}, []float32{nan, 1, 1, 1, 1, 1, 1, 1, 1})},
			{floats([]int{9}, make([]float32, 9)), floats(nil, []float32{nan})},
			{floats([]int{1}, []float32{nan}), floats([]int{1}, []float32{0})},
		} {
			got := array.Of[float32](trial{node: node(name), in: in}.same(t, name)[0])
			if got[0] == got[0] {
				t.Errorf("%s of NaN and another is %v", name, got)
			}
		}
	}
}

func TestLayerNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, shape := range [][]int{{1}, {3, 1}, {7, 5}, {40, 96}, {2, 300, 17}} {
		n := shape[len(shape)-1]
		x, gain, bias := gauss(r, shape...), gauss(r, n), gauss(r, n)
		v, want := array.Of[float32](x), []float64(nil)
		for i := 0; i < len(v); i += n {
			var mean, square float64
			for _, e := range v[i : i+n] {
				mean += float64(e) / float64(n)
			}
			for _, e := range v[i : i+n] {
				square += (float64(e) - mean) * (float64(e) - mean) / float64(n)
			}
			for k, e := range v[i : i+n] {
				want = append(want, (float64(e)-mean)/math.Sqrt(square+0.01)*float64(array.Of[float32](gain)[k])+float64(array.Of[float32](bias)[k]))
			}
		}
		tr := trial{node: node("LayerNormalization", onnx.Float("epsilon", 0.01)), in: []*array.Array{x, gain, bias}}
		approx(t, fmt.Sprint(shape), tr.same(t, "LayerNormalization")[0], shape, want, 2e-6)
	}
}
