package op

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/core/graph/array"
	"mm-abi.org/mm/core/graph/kernel"
	"mm-abi.org/mm/core/onnx"
	"mm-abi.org/mm/core/tensor"
)

// slowly is MatMul in float64, by the definition.
func slowly(t *testing.T, a, b *array.Array, trans bool) (shape []int, out []float64) {
	t.Helper()
	right := append([]int(nil), b.Shape...)
	if n := len(right); trans {
		right[n-1], right[n-2] = right[n-2], right[n-1]
	}
	g, err := kernel.Factors(a.Shape, right)
	if err != nil {
		t.Fatal(err)
	}
	x, y := array.Of[float32](a), array.Of[float32](b)
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
		a, b := gauss(r, s[0]...), gauss(r, s[1]...)
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
				right = gauss(r, shape...)
			}
			tr := trial{node: node("MatMul"), in: []*array.Array{a, right}, fixed: []bool{false, how.fixed}, prepare: how.prepare, change: func(c *kernel.Call) { c.Transposed = how.trans }}
			shape, want := slowly(t, a, right, how.trans)
			approx(t, name, tr.same(t, name)[0], shape, want, 3e-6)
		}
	}
}

// What is joined to a product comes behind it, row by row.
func TestFollow(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, m := range []int{1, 3, 60, 200} {
		for _, n := range []int{1, 6, 1500} {
			a, b, bias := gauss(r, m, 90), gauss(r, 90, n), gauss(r, n)
			shape, want := slowly(t, a, b, false)
			for i := range want {
				want[i] = 1 / (1 + math.Exp(-want[i]-float64(array.Of[float32](bias)[i%n])))
			}
			for _, fixed := range []bool{false, true} {
				tr := trial{node: node("MatMul"), in: []*array.Array{a, b}, fixed: []bool{false, fixed, true}, change: func(c *kernel.Call) {
					c.In, c.Then = append(c.In, bias), tensor.Sigmoid
				}}
				approx(t, fmt.Sprint(m, n, fixed), tr.same(t, "")[0], shape, want, 3e-6)
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
					a, b := gauss(r, sa...), gauss(r, sb...)
					in := []*array.Array{a, b}
					var c *array.Array
					if add != nil {
						c = gauss(r, add...)
						in = append(in, c)
					}
					want := make([]float64, m*n)
					x, y := array.Of[float32](a), array.Of[float32](b)
					for i := range m {
						for j := range n {
							var s float64
							for p := range k {
								s += float64(x[(i*k+p)*(1-int(ta))+(p*m+i)*int(ta)]) * float64(y[(p*n+j)*(1-int(tb))+(j*k+p)*int(tb)])
							}
							s *= float64(scale)
							if c != nil {
								st := kernel.Stretch(c.Shape, []int{m, n})
								s += float64(2*scale) * float64(array.Of[float32](c)[i*st[0]+j*st[1]])
							}
							want[i*n+j] = math.Tanh(s)
						}
					}
					beta := 2 * scale
					for _, prepare := range []bool{false, true} {
						tr := trial{node: node("Gemm", onnx.Int("transA", ta), onnx.Int("transB", tb), onnx.Float("alpha", scale), onnx.Float("beta", beta)), in: in, fixed: []bool{false, prepare, false}, prepare: prepare, change: func(c *kernel.Call) { c.Then = tensor.Tanh }}
						name := fmt.Sprint(ta, tb, add, scale, prepare)
						approx(t, name, tr.same(t, name)[0], []int{m, n}, want, 3e-6)
					}
				}
			}
		}
	}
}

// Products of whole numbers are exact.
func TestMatMulInteger(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, s := range [][2][]int{{{1, 1}, {1, 1}}, {{3, 17}, {17, 5}}, {{40, 33}, {33, 70}}, {{2, 3, 20}, {20, 9}}, {{2, 3, 20}, {2, 20, 9}}, {{4}, {4, 3}}, {{0, 4}, {4, 3}}, {{2, 0}, {0, 3}}} {
		for _, kinds := range [][2]onnx.DType{{onnx.UINT8, onnx.INT8}, {onnx.INT8, onnx.UINT8}} {
			for _, zeros := range []int{0, 1, 2} { // none, one, one a row and a column
				a, b := bytes8(r, kinds[0], s[0]...), bytes8(r, kinds[1], s[1]...)
				in := []*array.Array{a, b, nil, nil}
				rows, cols := 1, 1
				if zeros == 2 {
					if cols = b.Dim(-1); a.Rank() > 1 {
						rows = a.Dim(-2)
					}
				}
				if zeros > 0 {
					in[2], in[3] = bytes8(r, kinds[0], rows), bytes8(r, kinds[1], cols)
				}
				if rows == 0 {
					continue
				}
				g, err := kernel.Factors(a.Shape, b.Shape)
				if err != nil {
					t.Fatal(err)
				}
				value := func(x *array.Array, i int) int32 {
					if x == nil {
						return 0
					}
					if x.Type == onnx.INT8 {
						return int32(array.Of[int8](x)[i])
					}
					return int32(array.Of[uint8](x)[i])
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
					name := fmt.Sprint(shapeName(s[0], s[1]), kinds, zeros, fixed)
					got := trial{node: node("MatMulInteger"), in: in, fixed: []bool{false, fixed, false, fixed}}.same(t, name)[0]
					if got.Len() != len(want) {
						t.Fatalf("%s: %v", name, got.Shape)
					}
					for i, v := range array.Of[int32](got) {
						if v != want[i] {
							t.Fatalf("%s: element %d is %d, want %d", name, i, v, want[i])
						}
					}
				}
			}
		}
	}
}

func TestConvInteger(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	const batch, cin, cout, groups, h, w = 2, 4, 6, 2, 9, 11
	x, k := bytes8(r, onnx.UINT8, batch, cin, h, w), bytes8(r, onnx.INT8, cout, cin/groups, 3, 3)
	zx, zk := bytes8(r, onnx.UINT8, 1), bytes8(r, onnx.INT8, cout)
	var want []int32
	for n := range batch {
		for o := range cout {
			for y := range h {
				for q := range w {
					var s int32
					for c := range cin / groups {
						for i := range 3 {
							for j := range 3 {
								py, px := y+i-1, q+j-1
								if py < 0 || py >= h || px < 0 || px >= w {
									continue
								}
								v := int32(x.Bytes()[((n*cin+o/(cout/groups)*(cin/groups)+c)*h+py)*w+px]) - int32(zx.Bytes()[0])
								s += v * (int32(array.Of[int8](k)[((o*cin/groups+c)*3+i)*3+j]) - int32(array.Of[int8](zk)[o]))
							}
						}
					}
					want = append(want, s)
				}
			}
		}
	}
	for _, fixed := range []bool{false, true} {
		tr := trial{node: node("ConvInteger", onnx.Int("group", groups), onnx.IntList("pads", 1, 1, 1, 1)), in: []*array.Array{x, k, zx, zk}, fixed: []bool{false, fixed, false, fixed}}
		got := tr.same(t, "ConvInteger")[0]
		for i, v := range array.Of[int32](got) {
			if v != want[i] {
				t.Fatalf("element %d of %v is %d, want %d", i, got.Shape, v, want[i])
			}
		}
	}
}
