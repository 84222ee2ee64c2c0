package tensor

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestDotNibbles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	for _, c := range []struct{ blocks, per int }{{0, 1}, {1, 1}, {3, 1}, {2, 4}, {5, 2}, {64, 1}, {1, 64}} {
		n := c.blocks * c.per * NibbleGroup
		x, w, scales := make([]float32, n), make([]byte, n/2), make([]float32, c.blocks)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		for i := range w {
			w[i] = byte(rng.Uint32())
		}
		for i := range scales {
			scales[i] = float32(rng.NormFloat64())
		}
		var want, size float64
		for i, v := range x {
			term := float64(v) * float64(w[i/2]>>(i%2*4)&15) * float64(scales[i/(c.per*NibbleGroup)])
			want, size = want+term, size+math.Abs(term)
		}
		ordered := make([]float32, n)
		OrderNibbles(ordered, x)
		for name, got := range map[string]float32{"kernel": DotNibbles(ordered, w, scales, c.per), "plain": dotNibblesPlain(ordered, w, scales, c.per)} {
			if math.Abs(float64(got)-want) > 1e-6*size {
				t.Errorf("%d blocks of %d, %s: got %v, want %v", c.blocks, c.per, name, got, want)
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	DotNibbles(make([]float32, 31), make([]byte, 16), make([]float32, 1), 1)
}
