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
		rows, four := make([]float32, 4*(n+5)), [4]float32{1, 1, 1, 1}
		for i := range 4 {
			for k, v := range ordered {
				rows[i*(n+5)+k] = v * float32(i+1)
			}
		}
		DotNibbles4(&four, rows, n+5, w, scales, c.per)
		for i, got := range four {
			if math.Abs(float64(got)-want*float64(i+1)) > 1e-6*size*float64(i+1) {
				t.Errorf("%d blocks of %d, row %d: got %v, want %v", c.blocks, c.per, i, got, want*float64(i+1))
			}
		}
		for name, got := range map[string]float32{"kernel": DotNibbles(ordered, w, scales, c.per), "plain": dotNibblesPlain(ordered, w, scales, c.per)} {
			if math.Abs(float64(got)-want) > 1e-6*size {
				t.Errorf("%d blocks of %d, %s: got %v, want %v", c.blocks, c.per, name, got, want)
			}
		}
	}
	for name, f := range map[string]func(){
		"four rows": func() {
			DotNibbles4(new([4]float32), make([]float32, 127), 32, make([]byte, 16), make([]float32, 1), 1)
		},
		"overlap": func() {
			DotNibbles4(new([4]float32), make([]float32, 256), 31, make([]byte, 16), make([]float32, 1), 1)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	DotNibbles(make([]float32, 31), make([]byte, 16), make([]float32, 1), 1)
}

func TestUnpackNibbles(t *testing.T) {
	w := make([]byte, 48)
	for i := range w {
		w[i] = byte(91 * i)
	}
	got, want := make([]float32, 96), make([]float32, 96)
	UnpackNibbles(got, w, 7, 0.3)
	unpackNibblesPlain(want, w, 7, 0.3)
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%d: got %v, want %v", i, got[i], want[i])
		}
	}
	if want[1] != (float32(w[1]&15)-7)*0.3 || want[17] != (float32(w[1]>>4)-7)*0.3 {
		t.Errorf("order: %v", want[:32])
	}
	UnpackNibbles(nil, nil, 0, 0)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	UnpackNibbles(make([]float32, 33), w, 0, 0)
}
