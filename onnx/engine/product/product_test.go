package product_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
	"mm-abi.org/mm/onnx/onnxtest"
)

// slowly computes MatMul in float64 by its definition.
func slowly(t *testing.T, a, b *kernel.Array, trans bool) (shape []int, out []float64) {
	t.Helper()
	right := append([]int(nil), b.Shape...)
	if n := len(right); trans {
		right[n-1], right[n-2] = right[n-2], right[n-1]
	}
	g, err := kernel.Factors(a.Shape, right)
	if err != nil {
		t.Fatal(err)
	}
	x, y := kernel.Elements[float32](a), kernel.Elements[float32](b)
	for i := range g.Batches {
		ai, bi := g.At(i)
		for r := range g.M {
			for j := range g.N {
				var s float64
				for k := range g.K {
					q := bi*g.K*g.N + k*g.N + j
					if trans {
						q = bi*g.K*g.N + j*g.K + k
					}
					s += float64(x[(ai*g.M+r)*g.K+k]) * float64(y[q])
				}
				out = append(out, s)
			}
		}
	}
	return g.Shape, out
}

func TestMatMul(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range [][2][]int{
		{{1, 1}, {1, 1}}, {{5}, {5}}, {{5}, {5, 3}}, {{3, 5}, {5}}, {{1, 7}, {7, 65}}, {{2, 7}, {7, 33}}, {{4, 7}, {7, 33}},
		{{61, 70}, {70, 129}}, {{3, 0}, {0, 4}}, {{0, 3}, {3, 4}}, {{2, 3, 4, 5}, {5, 6}}, {{2, 3, 4, 5}, {3, 5, 6}}, {{1, 3, 2, 5}, {2, 1, 5, 6}},
		{{9, 17, 5}, {9, 5, 6}}, {{2, 200, 160}, {2, 160, 170}}, {{100, 300}, {300, 500}},
	} {
		a, b := onnxtest.Gauss(r, s[0]...), onnxtest.Gauss(r, s[1]...)
		for _, how := range []struct{ fixed, prepare, trans bool }{{}, {fixed: true}, {fixed: true, prepare: true}, {trans: true}} {
			name := fmt.Sprintf("%s, %+v", shapeName(s[0], s[1]), how)
			right := b
			if how.trans {
				if b.Rank() < 2 {
					continue
				}
				shape := append([]int(nil), b.Shape...)
				n := len(shape)
				shape[n-1], shape[n-2] = shape[n-2], shape[n-1]
				right = onnxtest.Gauss(r, shape...)
			}
			tr := onnxtest.Trial{Node: onnxtest.Node("MatMul"), In: []*kernel.Array{a, right}, Fixed: []bool{false, how.fixed}, Prepare: how.prepare, Change: func(c *kernel.Call) { c.Transposed = how.trans }}
			shape, want := slowly(t, a, right, how.trans)
			onnxtest.Approx(t, name, tr.Same(t, name)[0], shape, want, 3e-6)
		}
	}
}

// Fused operations are applied to a product row by row.
func TestFollow(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, m := range []int{1, 3, 60, 200} {
		for _, n := range []int{1, 6, 1500} {
			a, b, bias := onnxtest.Gauss(r, m, 90), onnxtest.Gauss(r, 90, n), onnxtest.Gauss(r, n)
			shape, want := slowly(t, a, b, false)
			for i := range want {
				want[i] = 1 / (1 + math.Exp(-want[i]-float64(kernel.Elements[float32](bias)[i%n])))
			}
			for _, fixed := range []bool{false, true} {
				tr := onnxtest.Trial{Node: onnxtest.Node("MatMul"), In: []*kernel.Array{a, b}, Fixed: []bool{false, fixed, true}, Change: func(c *kernel.Call) {
					c.In, c.Then = append(c.In, bias), tensor.Sigmoid
				}}
				onnxtest.Approx(t, fmt.Sprint(m, n, fixed), tr.Same(t, "")[0], shape, want, 3e-6)
			}
		}
	}
}

func TestGemm(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const m, k, n = 37, 50, 41
	for _, ta := range []int64{0, 1} {
		for _, tb := range []int64{0, 1} {
			for _, add := range [][]int{nil, {n}, {1}, {}, {m, 1}, {m, n}, {1, n}} {
				for _, scale := range []float32{1, 0.5} {
					sa, sb := []int{m, k}, []int{k, n}
					if ta == 1 {
						sa = []int{k, m}
					}
					if tb == 1 {
						sb = []int{n, k}
					}
					a, b := onnxtest.Gauss(r, sa...), onnxtest.Gauss(r, sb...)
					in := []*kernel.Array{a, b}
					var c *kernel.Array
					if add != nil {
						c = onnxtest.Gauss(r, add...)
						in = append(in, c)
					}
					want := make([]float64, m*n)
					x, y := kernel.Elements[float32](a), kernel.Elements[float32](b)
					for i := range m {
						for j := range n {
							var s float64
							for p := range k {
								s += float64(x[(i*k+p)*(1-int(ta))+(p*m+i)*int(ta)]) * float64(y[(p*n+j)*(1-int(tb))+(j*k+p)*int(tb)])
							}
							s *= float64(scale)
							if c != nil {
								st := kernel.Stretch(c.Shape, []int{m, n})
								s += float64(2*scale) * float64(kernel.Elements[float32](c)[i*st[0]+j*st[1]])
							}
							want[i*n+j] = math.Tanh(s)
						}
					}
					beta := 2 * scale
					for _, prepare := range []bool{false, true} {
						tr := onnxtest.Trial{Node: onnxtest.Node("Gemm", onnx.Int("transA", ta), onnx.Int("transB", tb), onnx.Float("alpha", scale), onnx.Float("beta", beta)), In: in, Fixed: []bool{false, prepare, false}, Prepare: prepare, Change: func(c *kernel.Call) { c.Then = tensor.Tanh }}
						name := fmt.Sprint(ta, tb, add, scale, prepare)
						onnxtest.Approx(t, name, tr.Same(t, name)[0], []int{m, n}, want, 3e-6)
					}
				}
			}
		}
	}
}

func shapeName(a, b []int) string { return fmt.Sprintf("%v times %v", a, b) }
