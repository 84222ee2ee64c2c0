package layers_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/engine/layers"
	"mm-abi.org/mm/onnx/onnxtest"
)

// attend computes attention with the given threads and memory limit.
func attend(in []*kernel.Array, transposed bool, threads int, limit int64) (*kernel.Array, error) {
	p := pool.New(threads)
	defer p.Close()
	var cache any
	c := &kernel.Call{Context: context.Background(), Arena: &kernel.Arena{Limit: limit}, Pool: p, Opset: 17, Cache: &cache, Lanes: make([]kernel.Lane, threads),
		Node: &onnx.Node{Op: "Attention"}, In: in, Fixed: make([]bool, len(in)), Out: make([]*kernel.Array, 1), Transposed: transposed}
	err := layers.Attention(0.3)(c)
	return c.Out[0], err
}

func TestAttention(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for _, s := range []struct {
		outer      []int
		m, d, n, e int
		mask       []int
	}{
		{nil, 1, 1, 1, 1, nil}, {nil, 7, 5, 9, 3, []int{9}}, {[]int{1}, 200, 40, 60, 70, []int{1, 200, 60}}, {[]int{2, 8}, 50, 15, 49, 15, []int{2, 1, 1, 49}},
		{[]int{9}, 5, 64, 300, 64, []int{}}, {[]int{3}, 97, 16, 33, 8, []int{97, 1}},
	} {
		for _, transposed := range []bool{false, true} {
			shape := func(v ...int) []int { return append(slices.Clone(s.outer), v...) }
			q, v := onnxtest.Gauss(r, shape(s.m, s.d)...), onnxtest.Gauss(r, shape(s.n, s.e)...)
			k := onnxtest.Gauss(r, shape(s.d, s.n)...)
			if transposed {
				k = onnxtest.Gauss(r, shape(s.n, s.d)...)
			}
			in := []*kernel.Array{q, k, v}
			scores := shape(s.m, s.n)
			var stride []int
			if s.mask != nil {
				in = append(in, onnxtest.Gauss(r, s.mask...))
				stride = kernel.Stretch(s.mask, scores)
			}
			x, y, z, want := kernel.Elements[float32](q), kernel.Elements[float32](k), kernel.Elements[float32](v), []float64(nil)
			for i := range kernel.Product(s.outer) {
				for a := range s.m {
					row, sum := make([]float64, s.n), 0.0
					for b := range row {
						for p := range s.d {
							at := (i*s.d+p)*s.n + b
							if transposed {
								at = (i*s.n+b)*s.d + p
							}
							row[b] += 0.3 * float64(x[(i*s.m+a)*s.d+p]) * float64(y[at])
						}
						if stride != nil {
							at, rest := 0, (i*s.m+a)*s.n+b
							for j := len(scores) - 1; j >= 0; j-- {
								at, rest = at+rest%scores[j]*stride[j], rest/scores[j]
							}
							row[b] += float64(kernel.Elements[float32](in[3])[at])
						}
						row[b] = math.Exp(row[b])
						sum += row[b]
					}
					for c := range s.e {
						var o float64
						for b := range row {
							o += row[b] / sum * float64(z[(i*s.n+b)*s.e+c])
						}
						want = append(want, o)
					}
				}
			}
			name := fmt.Sprintf("%+v %v", s, transposed)
			one, err := attend(in, transposed, 1, 0)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			onnxtest.Approx(t, name, one, shape(s.m, s.e), want, 3e-6)
			three, err := attend(in, transposed, 3, 0)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !slices.Equal(kernel.Elements[float32](one), kernel.Elements[float32](three)) {
				t.Errorf("%s: result depends on the number of threads", name)
			}
		}
	}
}

// Inputs that the block kernel does not support are computed by separate
// operators.
func TestAttentionSeparate(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	q, k, v := onnxtest.Gauss(r, 2, 4, 5), onnxtest.Gauss(r, 5, 6), onnxtest.Gauss(r, 3, 1, 6, 7) // different outer dimensions of the values
	got, err := attend([]*kernel.Array{q, k, v}, false, 2, 0)
	if err != nil || !slices.Equal(got.Shape, []int{3, 2, 4, 7}) {
		t.Fatalf("%v: %v", got, err)
	}
	for i := range 3 { // each of them separately
		alone := onnxtest.Floats([]int{2, 6, 7}, slices.Repeat(kernel.Elements[float32](v)[i*42:(i+1)*42], 2))
		keys := onnxtest.Floats([]int{2, 5, 6}, slices.Repeat(kernel.Elements[float32](k), 2))
		want, err := attend([]*kernel.Array{q, keys, alone}, false, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		var w []float64
		for _, x := range kernel.Elements[float32](want) {
			w = append(w, float64(x))
		}
		onnxtest.Approx(t, "apart", onnxtest.Floats(want.Shape, kernel.Elements[float32](got)[i*56:(i+1)*56]), want.Shape, w, 1e-6)
	}
	for _, in := range [][]*kernel.Array{
		{onnxtest.Gauss(r, 4, 5), onnxtest.Gauss(r, 6, 7), onnxtest.Gauss(r, 7, 3)},
		{onnxtest.Gauss(r, 4, 5), onnxtest.Gauss(r, 5, 7), onnxtest.Gauss(r, 6, 3)},
		{onnxtest.Gauss(r, 4, 5), onnxtest.Gauss(r, 5, 7), onnxtest.Gauss(r, 7, 3), onnxtest.Gauss(r, 3)},
		{onnxtest.Gauss(r, 4, 5), onnxtest.Longs(1, 2), onnxtest.Gauss(r, 7, 3)},
		{onnxtest.Gauss(r, 5), onnxtest.Gauss(r), onnxtest.Gauss(r, 7, 3)},
	} {
		if _, err := attend(in, false, 1, 0); err == nil {
			t.Errorf("%v, %v and %v: no error", in[0].Shape, in[1].Shape, in[2].Shape)
		}
	}
	if _, err := attend([]*kernel.Array{onnxtest.Gauss(r, 400, 8), onnxtest.Gauss(r, 8, 400), onnxtest.Gauss(r, 400, 8)}, false, 1, 1<<14); err == nil {
		t.Error("scores beyond the limit")
	}
}
