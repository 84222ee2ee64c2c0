package tensor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// curves lists the functions of one element with their float64 equivalent and
// the documented error, relative to the value or to floor(x).
var curves = []struct {
	name  string
	run   func(dst, x []float32)
	want  func(x float64) float64
	tol   float64
	floor func(x float64) float64
}{
	{"exp", Exp, math.Exp, 0x1p-22, nil},
	{"sigmoid", Sigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, 0x1p-21, nil},
	{"tanh", Tanh, math.Tanh, 0x1p-21, nil},
	{"erf", Erf, math.Erf, 3e-7, nil},
	{"gelu", GELU, func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }, 3e-7, math.Abs},
	{"silu", SiLU, func(x float64) float64 { return x / (1 + math.Exp(-x)) }, 0x1p-20, nil},
	{"sqrt", Sqrt, math.Sqrt, 0x1p-23, nil},
	{"hard sigmoid", func(d, x []float32) { HardSigmoid(d, x, 0.2, 0.5) }, func(x float64) float64 { return max(0, min(1, float64(float32(0.2))*x+0.5)) }, 0x1p-23, nil},
	{"hard swish", func(d, x []float32) { HardSwish(d, x, 0.25, 0.5) }, func(x float64) float64 { return x * max(0, min(1, 0.25*x+0.5)) }, 0x1p-21, nil},
	{"leaky relu", func(d, x []float32) { LeakyReLU(d, x, 0.25) }, func(x float64) float64 { return max(x, 0) + 0.25*min(x, 0) }, 0, nil},
	{"clip", func(d, x []float32) { Clip(d, x, -1.5, 2) }, func(x float64) float64 { return min(max(x, -1.5), 2) }, 0, nil},
	{"linear", func(d, x []float32) { Linear(d, x, 1.5, -0.25) }, func(x float64) float64 { return 1.5*x - 0.25 }, 0x1p-23, nil},
	{"sum with", func(d, x []float32) { SumWith(d, x, 3) }, func(x float64) float64 { return x + 3 }, 0x1p-23, nil},
	{"difference from", func(d, x []float32) { DifferenceFrom(d, x, 3) }, func(x float64) float64 { return 3 - x }, 0x1p-23, nil},
	{"times by", func(d, x []float32) { TimesBy(d, x, 3) }, func(x float64) float64 { return 3 * x }, 0x1p-23, nil},
	{"quotient by", func(d, x []float32) { QuotientBy(d, x, 3) }, func(x float64) float64 { return x / 3 }, 0x1p-23, nil},
	{"quotient of", func(d, x []float32) { QuotientOf(d, x, 3) }, func(x float64) float64 { return 3 / x }, 0x1p-23, nil},
}

func TestCurves(t *testing.T) {
	var xs []float32
	for x := -85.0; x < 85; x += 0.0171 {
		xs = append(xs, float32(x))
	}
	for x := -5.0; x < 5; x += 0.00097 {
		xs = append(xs, float32(x))
	}
	for x := 1e-30; x < 1; x *= 3 {
		xs = append(xs, float32(x), float32(-x))
	}
	for _, c := range curves {
		got := make([]float32, len(xs))
		c.run(got, xs)
		for i, x := range xs {
			want := c.want(float64(x))
			floor := 1.2e-38
			if c.floor != nil {
				floor = max(floor, c.floor(float64(x)))
			}
			vecNear(t, fmt.Sprint(c.name, " ", x), got[i:i+1], []float32{float32(want)}, c.tol, floor)
		}
		for _, n := range vecLengths { // at every position, and in place
			x := append([]float32(nil), xs[len(xs)-n:]...)
			c.run(x, x)
			vecNear(t, fmt.Sprint(c.name, " of ", n), x, got[len(got)-n:], 0, 0)
		}
		nan := []float32{1, float32(math.NaN()), 2, 3, 4, 5, 6, float32(math.NaN()), float32(math.NaN())}
		c.run(nan, nan)
		for i, v := range nan {
			if math.IsNaN(float64(v)) != (i == 1 || i >= 7) {
				t.Errorf("%s: element %d between NaNs: got %v", c.name, i, v)
			}
		}
	}
}

// Infinite inputs result in the limits.
func TestCurvesAtInfinity(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		name    string
		run     func(dst, x []float32)
		lo, mid float32
	}{{"sigmoid", Sigmoid, 0, 0.5}, {"tanh", Tanh, -1, 0}, {"erf", Erf, -1, 0}} {
		for _, n := range []int{3, 8, 11} {
			x := make([]float32, n)
			x[0], x[1] = -inf, inf
			c.run(x, x)
			if x[0] != c.lo || x[1] != 1 || x[2] != c.mid {
				t.Errorf("%s of -Inf, Inf, 0: got %v", c.name, x[:3])
			}
		}
	}
}

func TestPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct {
		name string
		run  func(dst, a, b []float32)
		want func(a, b float32) float32
	}{
		{"sum", Sum, func(a, b float32) float32 { return a + b }},
		{"difference", Difference, func(a, b float32) float32 { return a - b }},
		{"times", Times, func(a, b float32) float32 { return a * b }},
		{"quotient", Quotient, func(a, b float32) float32 { return a / b }},
	} {
		for _, n := range vecLengths {
			a, b, want := normal(r, n, 2), normal(r, n, 2), make([]float32, n)
			for i := range want {
				want[i] = c.want(a[i], b[i])
			}
			c.run(a, a, b)
			vecNear(t, fmt.Sprint(c.name, " ", n), a, want, 0, 0)
		}
	}
}

func TestMomentsAndNormalise(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, n := range vecLengths {
		x, gain, bias := normal(r, n, 3), normal(r, n, 1), normal(r, n, 1)
		var mean, variance float64
		for i := range x {
			x[i] += 2
			mean += float64(x[i]) / float64(n)
		}
		for _, v := range x {
			variance += (float64(v) - mean) * (float64(v) - mean) / float64(n)
		}
		m, v := Moments(x)
		vecNear(t, fmt.Sprint("moments ", n), []float32{m, v}, []float32{float32(mean), float32(variance)}, 2e-6, 1)
		want, got := make([]float32, n), make([]float32, n)
		for i := range x {
			want[i] = float32((float64(x[i])-float64(m))*0.7*float64(gain[i]) + float64(bias[i]))
		}
		Normalize(got, x, gain, bias, m, 0.7)
		vecNear(t, fmt.Sprint("normalise ", n), got, want, 5e-7, 10)
	}
}

func TestLSTM(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	s := func(x float32) float64 { return 1 / (1 + math.Exp(-float64(x))) }
	for _, n := range vecLengths {
		h, c := make([]float32, n), normal(r, n, 1)
		i, o, f, g := normal(r, n, 2), normal(r, n, 2), normal(r, n, 2), normal(r, n, 2)
		wantC, wantH := make([]float32, n), make([]float32, n)
		for k := range h {
			v := s(f[k])*float64(c[k]) + s(i[k])*math.Tanh(float64(g[k]))
			wantC[k], wantH[k] = float32(v), float32(s(o[k])*math.Tanh(v))
		}
		LSTM(h, c, i, o, f, g)
		vecNear(t, fmt.Sprint("cell ", n), c, wantC, 1e-6, 1)
		vecNear(t, fmt.Sprint("hidden ", n), h, wantH, 1e-6, 1)
	}
}

func TestBytes(t *testing.T) {
	for _, n := range vecLengths {
		src, x, back := make([]uint8, n), make([]float32, n), make([]uint8, n)
		for i := range src {
			src[i] = uint8(i * 37)
		}
		FromBytes(x, src)
		for i := range x {
			if x[i] != float32(src[i]) {
				t.Fatalf("%d of %d: %v", i, n, x[i])
			}
			x[i] += 0.75
		}
		ToBytes(back, x)
		for i := range x {
			if back[i] != src[i] {
				t.Fatalf("%v: got %d", x[i], back[i])
			}
		}
	}
	x := []float32{-1, -1.5, 256, 257.9, 3e9, -3e9, float32(math.Inf(1)), float32(math.NaN()), 255.9}
	got := make([]uint8, len(x))
	ToBytes(got, x)
	if want := []uint8{255, 255, 0, 1, 0, 0, 0, 0, 255}; string(got) != string(want) {
		t.Errorf("%v: got %v, want %v", x, got, want)
	}
}

func BenchmarkCurves(b *testing.B) {
	x, dst := normal(rand.New(rand.NewPCG(1, 1)), 4096, 1), make([]float32, 4096)
	for _, c := range curves {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(4 * 4096)
			for b.Loop() {
				c.run(dst, x)
			}
		})
	}
}
