package tensor

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Sines and cosines are the library's, rounded to float32, except for one unit in the last place.
func TestSines(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	x := []float32{0, float32(math.Copysign(0, -1)), 1e-30, math.Pi, math.Pi / 2, -math.Pi / 2, 3e4, 99999, maxReduced, 1e6, 1e30, -1e30, float32(math.Inf(1)), float32(math.NaN())}
	for _, scale := range []float64{1e-3, 1, 10, 1000, maxReduced, 2 * maxReduced} {
		for range 20000 {
			x = append(x, float32(scale*(2*rng.Float64()-1)))
		}
	}
	for name, c := range map[string]struct {
		fast  func(dst, x []float32)
		exact func(float64) float64
	}{"sin": {Sin, math.Sin}, "cos": {Cos, math.Cos}} {
		got := make([]float32, len(x))
		c.fast(got, x)
		for i, v := range x {
			want := float32(c.exact(float64(v)))
			if got[i] != want && got[i] != math.Nextafter32(want, 2) && got[i] != math.Nextafter32(want, -2) && (got[i] == got[i] || want == want) {
				t.Fatalf("%s(%v): got %v, want %v", name, v, got[i], want)
			}
			one := []float32{0}
			if c.fast(one, x[i:i+1]); math.Float32bits(one[0]) != math.Float32bits(got[i]) && v == v {
				t.Fatalf("%s(%v): got %v alone, %v in a vector", name, v, one[0], got[i])
			}
		}
	}
}

func BenchmarkSines(b *testing.B) {
	x := make([]float32, 1<<14)
	for i := range x {
		x[i] = float32(i) / 100
	}
	for range b.N {
		Sin(x[:len(x):len(x)], x)
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/float64(len(x)), "ns/number")
}
