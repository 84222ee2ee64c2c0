package product

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The fast loop equals rounding in float64.
func TestToBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		x := make([]float32, 1+rng.IntN(300))
		scale := float32(math.Exp(20 * (rng.Float64() - 0.5)))
		for i := range x {
			x[i] = scale * float32(rng.NormFloat64())
		}
		by, zero := spread(x)
		if rng.IntN(2) == 0 {
			for i := range x { // ties
				x[i] = by * (float32(rng.IntN(512)-256) + 0.5)
			}
		}
		got := make([]uint8, len(x))
		toBytes(got, x, by, zero)
		for i, v := range x {
			if want := uint8(min(max(math.RoundToEven(float64(v/by))+zero, 0), 255)); got[i] != want {
				t.Fatalf("%v by %v and %v: got %d, want %d", v, by, zero, got[i], want)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		x      []float32
		lo, hi float32
	}{
		{nil, 0, 0}, {[]float32{1, 2}, 0, 2}, {[]float32{-1, -2, -3, -4, -5}, -5, 0}, {[]float32{1, -7, 3, 9, 2, 11}, -7, 11},
		{[]float32{0, nan, 0, 0, 1}, nan, nan}, {[]float32{0, 0, 0, 0, nan}, nan, nan}, {[]float32{1, 2, 3, 4, inf}, 0, inf}, {[]float32{1, inf, 3, -4}, -4, inf},
	} {
		lo, hi := bounds(c.x)
		if lo != c.lo && (lo == lo || c.lo == c.lo) || hi != c.hi && (hi == hi || c.hi == c.hi) {
			t.Errorf("%v: got %v and %v, want %v and %v", c.x, lo, hi, c.lo, c.hi)
		}
	}
	out := make([]uint8, 3)
	toBytes(out, []float32{1, nan, -1}, nan, 0)
	toBytes(out, []float32{1, nan, -1}, inf, 0)
	toBytes(out, []float32{0, 0, 0}, 0, 0)
}
