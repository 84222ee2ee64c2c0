package conv

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
)

// bench returns the resources of a test.
func bench(threads int) (*Work, func()) {
	p := pool.New(threads)
	return &Work{For: func(n, chunk int, f func(thread, lo, hi int)) { p.For(n, chunk, pool.Func(f)) }, Rows: make([]tensor.Row, threads), Room: func(n int) ([]float32, error) {
		s := make([]float32, n)
		for i := range s {
			s[i] = float32(math.NaN())
		}
		return s, nil
	}}, p.Close
}

func random(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func filter(t *testing.T, k tensor.ConvKernels, s Spec, weights, bias []float32) *Filter {
	t.Helper()
	f, err := NewFilter(k, s, weights, bias, func(n int) ([]float32, error) {
		m := make([]float32, n)
		for i := range m {
			m[i] = float32(math.NaN())
		}
		return m, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// blocked converts plain images to blocks; the lanes beyond the channels hold
// NaNs, which must not reach a result.
func blocked(x []float32, batch, channels, pixels, lanes int) []float32 {
	blocks := Blocks(channels, lanes)
	out := make([]float32, batch*blocks*lanes*pixels)
	for i := range out {
		out[i] = float32(math.NaN())
	}
	for i, v := range x {
		n, c, p := i/pixels/channels, i/pixels%channels, i%pixels
		out[((n*blocks+c/lanes)*pixels+p)*lanes+c%lanes] = v
	}
	return out
}

// plain is the inverse of blocked.
func plain(x []float32, batch, channels, pixels, lanes int) []float32 {
	blocks := Blocks(channels, lanes)
	out := make([]float32, batch*channels*pixels)
	for i := range out {
		n, c, p := i/pixels/channels, i/pixels%channels, i%pixels
		out[i] = x[((n*blocks+c/lanes)*pixels+p)*lanes+c%lanes]
	}
	return out
}

// naive computes a convolution in float64 by its definition.
func naive(s Spec, w Window, batch int, x, weights, bias []float32) []float64 {
	in, out := s.In/s.Groups, s.Out/s.Groups
	res := make([]float64, batch*s.Out*w.Out[0]*w.Out[1])
	for i := range res {
		c, oy, ox := i/w.Out[1]/w.Out[0]%s.Out, i/w.Out[1]%w.Out[0], i%w.Out[1]
		n := i / w.Out[1] / w.Out[0] / s.Out
		if bias != nil {
			res[i] = float64(bias[c])
		}
		for k := range in {
			for ky := range w.Kernel[0] {
				for kx := range w.Kernel[1] {
					y, x1 := oy*w.Stride[0]+ky*w.Dilation[0]-w.Before[0], ox*w.Stride[1]+kx*w.Dilation[1]-w.Before[1]
					if y >= 0 && y < w.In[0] && x1 >= 0 && x1 < w.In[1] {
						res[i] += float64(x[((n*s.In+c/out*in+k)*w.In[0]+y)*w.In[1]+x1]) * float64(weights[((c*in+k)*w.Kernel[0]+ky)*w.Kernel[1]+kx])
					}
				}
			}
		}
	}
	return res
}

// cases lists convolutions of all kinds.
var cases = []struct {
	s                         Spec
	in                        [2]int
	stride, dilation, b, more [2]int // more: padding at the bottom and right
	batch                     int
}{
	{Spec{3, 16, 1, [2]int{3, 3}, true}, [2]int{11, 13}, [2]int{2, 2}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 2},
	{Spec{1, 24, 1, [2]int{5, 5}, true}, [2]int{28, 28}, [2]int{1, 1}, [2]int{1, 1}, [2]int{2, 2}, [2]int{2, 2}, 1},
	{Spec{4, 7, 1, [2]int{1, 1}, true}, [2]int{5, 9}, [2]int{1, 1}, [2]int{1, 1}, [2]int{}, [2]int{}, 3},
	{Spec{16, 32, 1, [2]int{1, 1}, false}, [2]int{14, 15}, [2]int{1, 1}, [2]int{1, 1}, [2]int{}, [2]int{}, 1},
	{Spec{24, 40, 1, [2]int{1, 1}, false}, [2]int{13, 7}, [2]int{2, 3}, [2]int{1, 1}, [2]int{}, [2]int{}, 2},
	{Spec{33, 17, 1, [2]int{3, 3}, false}, [2]int{9, 10}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 1},
	{Spec{20, 50, 1, [2]int{3, 2}, false}, [2]int{12, 11}, [2]int{1, 2}, [2]int{2, 3}, [2]int{0, 2}, [2]int{3, 1}, 2},
	{Spec{24, 24, 1, [2]int{3, 1}, false}, [2]int{20, 8}, [2]int{1, 1}, [2]int{1, 1}, [2]int{}, [2]int{}, 1},
	{Spec{24, 24, 1, [2]int{3, 1}, false}, [2]int{20, 8}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 0}, [2]int{2, 0}, 1},
	{Spec{24, 24, 1, [2]int{1, 3}, false}, [2]int{6, 70}, [2]int{1, 1}, [2]int{1, 1}, [2]int{0, 1}, [2]int{0, 1}, 1},
	{Spec{64, 32, 2, [2]int{1, 1}, false}, [2]int{6, 7}, [2]int{1, 1}, [2]int{1, 1}, [2]int{}, [2]int{}, 1},
	{Spec{12, 96, 3, [2]int{3, 3}, false}, [2]int{6, 7}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 2},
	{Spec{24, 84, 3, [2]int{1, 1}, false}, [2]int{6, 7}, [2]int{1, 1}, [2]int{1, 1}, [2]int{}, [2]int{}, 1},
	{Spec{36, 136, 2, [2]int{3, 3}, false}, [2]int{6, 7}, [2]int{2, 1}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 2},
	{Spec{40, 40, 40, [2]int{3, 3}, false}, [2]int{9, 12}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 2},
	{Spec{16, 16, 16, [2]int{3, 3}, false}, [2]int{9, 90}, [2]int{2, 2}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 1},
	{Spec{18, 18, 18, [2]int{5, 5}, false}, [2]int{8, 80}, [2]int{1, 1}, [2]int{2, 2}, [2]int{4, 4}, [2]int{4, 4}, 1},
	{Spec{18, 18, 18, [2]int{5, 5}, false}, [2]int{3, 66}, [2]int{2, 1}, [2]int{1, 1}, [2]int{6, 7}, [2]int{7, 6}, 1},
	{Spec{18, 18, 18, [2]int{2, 99}, false}, [2]int{3, 70}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 20}, [2]int{1, 20}, 1},
	{Spec{16, 16, 1, [2]int{3, 3}, false}, [2]int{16, 16}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 1},
	{Spec{24, 40, 1, [2]int{3, 3}, false}, [2]int{23, 41}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 2},
	{Spec{33, 48, 1, [2]int{3, 3}, false}, [2]int{26, 18}, [2]int{1, 1}, [2]int{1, 1}, [2]int{0, 2}, [2]int{2, 0}, 1},
	{Spec{5, 5, 5, [2]int{3, 3}, false}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, 4},
}

func TestFilter(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: a direct convolution for every case")
	}
	byTransforms := 0
	for _, k := range []tensor.ConvKernels{tensor.BestConv(), tensor.PlainConv(4)} {
		for _, c := range cases {
			s := c.s
			if !s.Fits(k) {
				t.Fatalf("%+v: unsupported", s)
			}
			w := Window{In: c.in, Kernel: s.Kernel, Stride: c.stride, Dilation: c.dilation, Before: c.b}
			for i := range 2 {
				w.Out[i] = (c.in[i]+c.b[i]+c.more[i]-(s.Kernel[i]-1)*c.dilation[i]-1)/c.stride[i] + 1
			}
			r := rand.New(rand.NewPCG(1, 2))
			pixels, size := w.In[0]*w.In[1], w.Out[0]*w.Out[1]
			x, weights, bias := random(r, c.batch*s.In*pixels), random(r, s.Out*s.In/s.Groups*s.Kernel[0]*s.Kernel[1]), random(r, s.Out)
			f := filter(t, k, s, weights, bias)
			img := blocked(x, c.batch, s.In, pixels, k.Lanes())
			off := 2e-5
			if f.transforms(&w) {
				off = 3e-5 * math.Sqrt(float64(9*s.In)) // relative to the size of the sums
				byTransforms++
			}
			if s.Plain {
				img = x
			}
			add := random(r, c.batch*s.Out*size)
			sums := naive(s, w, c.batch, x, weights, bias)
			for _, a := range []After{Nothing(), {Low: 0, High: 3}, {Low: -1, High: 1, Add: add}} {
				what := fmt.Sprintf("%d lanes, %+v over %v by %v, low %g", k.Lanes(), s, c.in, c.stride, a.Low)
				want := slices.Clone(sums)
				for i := range want {
					if a.Add != nil {
						want[i] += float64(add[i])
					}
					want[i] = min(max(want[i], float64(a.Low)), float64(a.High))
				}
				if a.Add != nil {
					a.Add = blocked(add, c.batch, s.Out, size, k.Lanes())
				}
				var first []float32
				for _, threads := range []int{1, 3} {
					work, done := bench(threads)
					out := make([]float32, c.batch*Blocks(s.Out, k.Lanes())*k.Lanes()*size)
					if err := f.Do(work, w, c.batch, out, img, a); err != nil {
						t.Fatal(err)
					}
					done()
					got := plain(out, c.batch, s.Out, size, k.Lanes())
					if first == nil {
						first = got
					}
					if !slices.Equal(got, first) {
						t.Errorf("%s: %d threads change the result", what, threads)
					}
				}
				for i, v := range first {
					if !(math.Abs(float64(v)-want[i]) <= off*(1+math.Abs(want[i]))) {
						t.Fatalf("%s: element %d: got %g, want %g", what, i, v, want[i])
					}
				}
			}
		}
	}
	if byTransforms < 6 {
		t.Errorf("%d cases use transforms", byTransforms)
	}
}

// One filter supports images of many sizes, with an activation.
func TestFilterAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: a direct convolution for every case")
	}
	k := tensor.BestConv()
	work, done := bench(2)
	defer done()
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range []Spec{{20, 20, 1, [2]int{3, 3}, false}, {20, 20, 20, [2]int{3, 3}, false}} {
		weights := random(r, s.Out*s.In/s.Groups*9)
		f := filter(t, k, s, weights, nil)
		for _, size := range [][2]int{{5, 6}, {70, 80}, {9, 7}, {5, 6}, {80, 70}} {
			w := Window{In: size, Out: size, Kernel: s.Kernel, Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Before: [2]int{1, 1}}
			n := size[0] * size[1]
			x := random(r, s.In*n)
			out := make([]float32, Blocks(s.Out, k.Lanes())*k.Lanes()*n)
			a := Nothing()
			a.Shape = &tensor.Shaper{A: 0.5, Low: -1, High: 1, Scale: 2, Shift: 1, Form: tensor.ShapeTimes}
			if err := f.Do(work, w, 1, out, blocked(x, 1, s.In, n, k.Lanes()), a); err != nil {
				t.Fatal(err)
			}
			want := naive(s, w, 1, x, weights, nil)
			for i, v := range plain(out, 1, s.Out, n, k.Lanes()) {
				y := want[i]*min(max(want[i]/2, -1), 1)*2 + 1
				if !(math.Abs(float64(v)-y) <= 5e-5*(math.Sqrt(float64(9*s.In))+math.Abs(y))) {
					t.Fatalf("%+v over %v: element %d: got %g, want %g", s, size, i, v, y)
				}
			}
		}
	}
}

func TestPool(t *testing.T) {
	for _, k := range []tensor.ConvKernels{tensor.BestConv(), tensor.PlainConv(4)} {
		for _, w := range []Window{
			{In: [2]int{8, 8}, Out: [2]int{4, 4}, Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}, Dilation: [2]int{1, 1}},
			{In: [2]int{9, 70}, Out: [2]int{9, 70}, Kernel: [2]int{3, 3}, Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Before: [2]int{1, 1}},
			{In: [2]int{9, 10}, Out: [2]int{5, 3}, Kernel: [2]int{3, 2}, Stride: [2]int{2, 4}, Dilation: [2]int{2, 3}, Before: [2]int{2, 1}},
			{In: [2]int{1, 2}, Out: [2]int{7, 8}, Kernel: [2]int{3, 3}, Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Before: [2]int{4, 4}},
		} {
			const blocks = 3
			lanes := k.Lanes()
			r := rand.New(rand.NewPCG(1, 2))
			x := random(r, blocks*w.In[0]*w.In[1]*lanes)
			for _, kind := range []string{"most", "mean", "padded mean"} {
				var count func(dim, o int) int
				if kind == "padded mean" {
					count = func(dim, _ int) int { return w.Kernel[dim] }
				}
				p := NewPool(k, w, kind == "most", count)
				work, done := bench(2)
				out := make([]float32, blocks*w.Out[0]*w.Out[1]*lanes)
				p.Do(work, blocks, out, x)
				done()
				for i, v := range out {
					l, ox, oy, b := i%lanes, i/lanes%w.Out[1], i/lanes/w.Out[1]%w.Out[0], i/lanes/w.Out[1]/w.Out[0]
					most, sum, n := math.Inf(-1), 0.0, 0
					for k := range w.Kernel[0] * w.Kernel[1] {
						y, x1 := oy*w.Stride[0]+k/w.Kernel[1]*w.Dilation[0]-w.Before[0], ox*w.Stride[1]+k%w.Kernel[1]*w.Dilation[1]-w.Before[1]
						if y >= 0 && y < w.In[0] && x1 >= 0 && x1 < w.In[1] {
							e := float64(x[((b*w.In[0]+y)*w.In[1]+x1)*lanes+l])
							most, sum, n = max(most, e), sum+e, n+1
						}
					}
					want := most
					switch {
					case kind == "padded mean":
						want = sum / float64(w.Kernel[0]*w.Kernel[1])
					case kind == "mean" && n > 0:
						want = sum / float64(n)
					case kind == "mean":
						want = 0
					}
					if want != float64(v) && !(math.Abs(want-float64(v)) <= 1e-6*(1+math.Abs(want))) {
						t.Fatalf("%+v, %s: element %d: got %g, want %g", w, kind, i, v, want)
					}
				}
			}
		}
	}
}

func TestTransposed(t *testing.T) {
	for _, k := range []tensor.ConvKernels{tensor.BestConv(), tensor.PlainConv(4)} {
		for _, c := range []struct {
			in, out      int
			kernel, size [2]int
			batch        int
		}{
			{24, 24, [2]int{2, 2}, [2]int{7, 9}, 1}, {24, 1, [2]int{2, 2}, [2]int{7, 9}, 2}, {5, 40, [2]int{3, 2}, [2]int{20, 3}, 1},
			{17, 3, [2]int{4, 4}, [2]int{5, 6}, 1}, {3, 9, [2]int{1, 5}, [2]int{1, 6}, 2},
		} {
			r := rand.New(rand.NewPCG(1, 2))
			n, size, lanes := c.size[0]*c.size[1], c.kernel[0]*c.kernel[1], k.Lanes()
			x, weights, bias := random(r, c.batch*c.in*n), random(r, c.in*c.out*size), random(r, c.out)
			f, err := NewTransposed(k, c.in, c.out, c.kernel, weights, bias, func(n int) ([]float32, error) { return make([]float32, n), nil })
			if err != nil {
				t.Fatal(err)
			}
			want := make([]float64, c.batch*c.out*n*size)
			for i := range want {
				width, high := c.size[1]*c.kernel[1], c.size[0]*c.kernel[0]
				x1, y, o, b := i%width, i/width%high, i/width/high%c.out, i/width/high/c.out
				want[i] = float64(bias[o])
				for ch := range c.in {
					want[i] += float64(x[((b*c.in+ch)*c.size[0]+y/c.kernel[0])*c.size[1]+x1/c.kernel[1]]) * float64(weights[(ch*c.out+o)*size+y%c.kernel[0]*c.kernel[1]+x1%c.kernel[1]])
				}
				want[i] = max(want[i], 0)*2 + 1
			}
			for _, threads := range []int{1, 3} {
				work, done := bench(threads)
				out := make([]float32, c.batch*Blocks(c.out, lanes)*lanes*n*size)
				if f.Plain() {
					out = out[:len(want)]
				}
				a := After{Low: 0, High: float32(math.Inf(1)), Shape: &tensor.Shaper{A: 1, Low: 0, High: 1e30, Scale: 2, Shift: 1}}
				if err := f.Do(work, c.size, c.batch, out, blocked(x, c.batch, c.in, n, lanes), a); err != nil {
					t.Fatal(err)
				}
				done()
				if !f.Plain() {
					out = plain(out, c.batch, c.out, n*size, lanes)
				}
				for i, v := range out {
					if !(math.Abs(float64(v)-want[i]) <= 2e-5*(1+math.Abs(want[i]))) {
						t.Fatalf("%+v, %d lanes: element %d: got %g, want %g", c, lanes, i, v, want[i])
					}
				}
			}
		}
	}
}

// Without memory for transformed weights, the image is convolved directly.
func TestNoRoom(t *testing.T) {
	k := tensor.BestConv()
	r := rand.New(rand.NewPCG(1, 2))
	s := Spec{16, 16, 1, [2]int{3, 3}, false}
	weights, calls := random(r, 16*16*9), 0
	f, err := NewFilter(k, s, weights, nil, func(n int) ([]float32, error) {
		if calls++; calls > 1 {
			return nil, errors.New("no room")
		}
		return make([]float32, n), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w := Window{In: [2]int{16, 16}, Out: [2]int{16, 16}, Kernel: s.Kernel, Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Before: [2]int{1, 1}}
	x := random(r, 16*256)
	want := naive(s, w, 1, x, weights, nil)
	work, done := bench(1)
	defer done()
	for range 2 {
		out := make([]float32, Blocks(16, k.Lanes())*k.Lanes()*256)
		if err := f.Do(work, w, 1, out, blocked(x, 1, 16, 256, k.Lanes()), Nothing()); err != nil {
			t.Fatal(err)
		}
		for i, v := range plain(out, 1, 16, 256, k.Lanes()) {
			if !(math.Abs(float64(v)-want[i]) <= 2e-5*(1+math.Abs(want[i]))) {
				t.Fatalf("element %d: got %g, want %g", i, v, want[i])
			}
		}
	}
	if calls != 2 {
		t.Errorf("room was called %d times", calls)
	}
}
