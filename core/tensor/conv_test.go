package tensor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// row returns a random row of a convolution with unused space around it.
func row(r *rand.Rand, lanes, blocks, n, pixel, taps int, add bool) *Row {
	t := &Taps{}
	w := &Row{Taps: t, Blocks: blocks, N: n, Pixel: pixel * lanes, Depth: 1, Step: lanes, Plane: n*lanes + 16, At: 3 * lanes}
	for range taps {
		t.Add((r.IntN(9)-3)*lanes, 1+r.IntN(lanes), 1)
	}
	w.X = random(r, w.At+(n-1)*w.Pixel+6*lanes+lanes)
	w.W, w.Bias = random(r, t.Channels()*blocks*lanes), random(r, blocks*lanes)
	w.Out = random(r, blocks*w.Plane)
	if add {
		w.Add = random(r, len(w.Out))
	}
	w.Low, w.High = float32(math.Inf(-1)), float32(math.Inf(1))
	if r.IntN(2) == 0 {
		w.Low, w.High = 0, 2
	}
	return w
}

// twin returns the same row with separate results.
func (r *Row) twin() *Row {
	c := *r
	c.Out = append([]float32(nil), r.Out...)
	return &c
}

// agrees checks that two sums of n products of normal numbers agree.
func agrees(t *testing.T, what string, got, want []float32, n int) {
	t.Helper()
	for i, v := range got {
		d := math.Abs(float64(v - want[i]))
		if !(d <= 1e-6*math.Sqrt(float64(n))*(4+math.Abs(float64(want[i])))) && !(v != v && want[i] != want[i]) {
			t.Fatalf("%s: element %d: got %g, want %g", what, i, v, want[i])
		}
	}
}

// The assembly agrees with plain Go for every width of a row, and writes
// nothing outside it.
func TestConvKernelsAgree(t *testing.T) {
	fast := BestConv()
	if fast.level == nil {
		t.Skip("skipped: this processor has plain kernels only")
	}
	r := rand.New(rand.NewPCG(3, 4))
	plain := PlainConv(fast.lanes)
	for n := range 60 {
		for _, pixel := range []int{1, 2, 3} {
			add := r.IntN(2) == 0
			taps := 1 + r.IntN(9)
			what := fmt.Sprintf("%d pixels %d apart, %d taps, add %v", n+1, pixel, taps, add)
			for blocks := 1; blocks <= 2; blocks++ {
				a := row(r, fast.lanes, blocks, n+1, pixel, taps, add)
				b := a.twin()
				fast.Dense(a)
				plain.Dense(b)
				agrees(t, "dense: "+what, a.Out, b.Out, a.Taps.Channels())
			}
			a := row(r, fast.lanes, 1, n+1, pixel, taps, add)
			depthwise := &Taps{}
			for i := range taps {
				depthwise.AddDepthwise((r.IntN(9)-3)*fast.lanes, (taps-1-i)*fast.lanes)
			}
			a.Taps, a.W = depthwise, random(r, taps*fast.lanes)
			b, c := a.twin(), a.twin()
			fast.Depthwise(a)
			plain.Depthwise(b)
			agrees(t, "depthwise: "+what, a.Out, b.Out, taps)
			d := c.twin()
			fast.MaxPool(c)
			plain.MaxPool(d)
			agrees(t, "most: "+what, c.Out, d.Out, 0)
		}
	}
}

// Dense computes the documented sum.
func TestConvDense(t *testing.T) {
	for _, k := range []ConvKernels{BestConv(), PlainConv(4)} {
		r := rand.New(rand.NewPCG(5, 6))
		a := row(r, k.lanes, 2, 29, 2, 7, true)
		before := a.twin()
		k.Dense(a)
		want := make([]float32, len(a.Out))
		copy(want, before.Out)
		for p := range a.N {
			for o := range 2 * k.lanes {
				at := p*a.Step + o/k.lanes*a.Plane + o%k.lanes
				sum, w := float64(a.Bias[o])+float64(a.Add[at]), o
				for _, t := range a.Taps.list {
					for c := range t.n {
						sum += float64(a.X[a.At+p*a.Pixel+t.at/4+c]) * float64(a.W[w])
						w += 2 * k.lanes
					}
				}
				want[at] = bound(float32(sum), a.Low, a.High)
			}
		}
		agrees(t, fmt.Sprintf("%d lanes", k.lanes), a.Out, want, a.Taps.Channels())
	}
}

// The result of a pixel does not depend on the width of the row.
func TestConvWidth(t *testing.T) {
	k := BestConv()
	r := rand.New(rand.NewPCG(7, 8))
	a := row(r, k.lanes, 2, 53, 1, 5, false)
	k.Dense(a)
	for p := range a.N {
		b := a.twin()
		b.N, b.At, b.Out = 1, a.At+p*a.Pixel, make([]float32, a.Plane+k.lanes)
		k.Dense(b)
		for i := range k.lanes {
			if b.Out[i] != a.Out[p*a.Step+i] || b.Out[a.Plane+i] != a.Out[a.Plane+p*a.Step+i] {
				t.Fatalf("pixel %d alone differs", p)
			}
		}
	}
}

func TestShape(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, k := range []ConvKernels{BestConv(), PlainConv(8)} {
		r := rand.New(rand.NewPCG(9, 10))
		x := random(r, 7*k.lanes)
		copy(x, []float32{inf, -inf, 0, nan, 3, -3, 1e30, -1e30})
		for _, s := range []Shaper{
			{1, 0, 0, 6, 1, 0, ShapeBound},
			{0.2, 0.5, 0, 1, 2, -1, ShapeBound},
			{1. / 6, 0.5, 0, 1, 1, 0, ShapeTimes},
			{1. / 6, 0.5, 0, 1, 3, 0.25, ShapeTimes},
			{0.2, 0, -0.4, inf, 1, 0, ShapePeak},
		} {
			want := make([]float32, len(x))
			for i, v := range x {
				y := math.Min(math.Max(float64(s.A)*float64(v)+float64(s.B), float64(s.Low)), float64(s.High))
				switch s.Form {
				case ShapeTimes:
					y *= float64(v)
				case ShapePeak:
					y = math.Max(y, float64(v))
				}
				want[i] = float32(y*float64(s.Scale) + float64(s.Shift))
			}
			got := make([]float32, len(x))
			k.Shape(got, x, &s)
			for i, v := range got {
				if d := math.Abs(float64(v - want[i])); !(d <= 1e-6*(1+math.Abs(float64(want[i])))) && v != want[i] && want[i] == want[i] {
					t.Errorf("%d lanes, %+v of %g: got %g, want %g", k.lanes, s, x[i], v, want[i])
				}
			}
			if k.level != nil {
				other := make([]float32, len(x))
				PlainConv(k.lanes).Shape(other, x, &s)
				agrees(t, fmt.Sprintf("%+v", s), got[8:], other[8:], 1)
			}
		}
	}
}

func TestLanes(t *testing.T) {
	k := BestConv()
	plain := PlainConv(k.lanes)
	r := rand.New(rand.NewPCG(11, 12))
	for n := range 23 {
		x, v := random(r, n*k.lanes), random(r, k.lanes)
		a, b := make([]float32, len(x)), make([]float32, len(x))
		k.MulLanes(a, x, v)
		plain.MulLanes(b, x, v)
		agrees(t, "MulLanes", a, b, 0)
		c, d := make([]float32, k.lanes), make([]float32, k.lanes)
		k.SumLanes(c, x)
		plain.SumLanes(d, x)
		agrees(t, "SumLanes", c, d, 0)
	}
}

// A row that exceeds its slices panics before it is computed.
func TestRowRange(t *testing.T) {
	k := BestConv()
	for name, damage := range map[string]func(r *Row){
		"input":    func(r *Row) { r.X = r.X[:r.At+(r.N-1)*r.Pixel] },
		"before":   func(r *Row) { r.At = 0; r.Taps.lo = -1 },
		"weights":  func(r *Row) { r.W = r.W[1:] },
		"bias":     func(r *Row) { r.Bias = r.Bias[1:] },
		"output":   func(r *Row) { r.Out = r.Out[:r.Plane+(r.N-1)*r.Step+k.lanes-1] },
		"addend":   func(r *Row) { r.Add = r.Add[:5] },
		"nothing":  func(r *Row) { r.N = 0 },
		"blocks":   func(r *Row) { r.Blocks = 3 },
		"no taps":  func(r *Row) { r.Taps = &Taps{} },
		"backward": func(r *Row) { r.Pixel = -1 },
	} {
		r := row(rand.New(rand.NewPCG(1, 1)), k.lanes, 2, 9, 1, 3, true)
		damage(r)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			k.Dense(r)
		}()
	}
}

func BenchmarkConvDense(b *testing.B) {
	k := BestConv()
	for i, n := range []int{1, 4, 7, 10, 14, 28, 80, 1, 7, 14, 80} {
		blocks := 2 - i/7
		r := rand.New(rand.NewPCG(1, 1))
		t := &Taps{}
		for i := range 9 {
			t.Add(i*k.lanes, k.lanes, 1)
		}
		a := &Row{Taps: t, Blocks: blocks, N: n, Pixel: k.lanes, Depth: 1, Step: k.lanes, Plane: n * k.lanes, High: 1e30}
		a.X, a.W, a.Bias, a.Out = random(r, (n+9)*k.lanes), random(r, t.Channels()*2*k.lanes), random(r, 2*k.lanes), make([]float32, 2*n*k.lanes)
		b.Run(fmt.Sprint(blocks, "x", n), func(b *testing.B) {
			for b.Loop() {
				k.Dense(a)
			}
			b.ReportMetric(float64(b.N)*float64(n*t.Channels()*blocks*k.lanes*2)/1e9/b.Elapsed().Seconds(), "GFLOPS")
		})
	}
}

func TestInterleave(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, lanes := range []int{8, 16} {
		for channels := 1; channels <= lanes; channels++ {
			for _, n := range []int{1, 7, 8, 9, 30} {
				ld := n + 3
				x := random(r, channels*ld)
				got := make([]float32, n*lanes)
				Interleave(got, lanes, x, ld, channels, n)
				back := make([]float32, len(x))
				Deinterleave(back, ld, got, lanes, channels, n)
				for c := range channels {
					for p := range n {
						if got[p*lanes+c] != x[c*ld+p] || back[c*ld+p] != x[c*ld+p] {
							t.Fatalf("%d lanes, %d channels, %d pixels: channel %d of pixel %d", lanes, channels, n, c, p)
						}
					}
				}
			}
		}
	}
}
