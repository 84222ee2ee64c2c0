package calibrated

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// inputs returns rows whose columns are correlated: mixtures of a few directions
// and some noise.
func inputs(r *rand.Rand, rows, n int) []float32 {
	mix := make([]float32, n/4*n)
	for i := range mix {
		mix[i] = float32(r.NormFloat64())
	}
	x := make([]float32, rows*n)
	for t := range rows {
		row := x[t*n : (t+1)*n]
		for d := range n / 4 {
			tensor.Axpy(row, float32(r.NormFloat64()), mix[d*n:(d+1)*n])
		}
		for i := range row {
			row[i] += float32(r.NormFloat64())
		}
	}
	return x
}

// products returns Σ x·xᵀ.
func products(x []float32, n int) []float32 {
	h := make([]float32, n*n)
	for ; len(x) > 0; x = x[n:] {
		for i := range n {
			tensor.Axpy(h[i*n:(i+1)*n], x[i], x[:n])
		}
	}
	return h
}

// change returns |x·(a-b)ᵀ|² relative to |x·aᵀ|².
func change(x, a, b []float32, n int) float64 {
	var e, s float64
	for ; len(x) > 0; x = x[n:] {
		for r := 0; r < len(a); r += n {
			var d, v float64
			for i := range n {
				d += float64(x[i]) * float64(a[r+i]-b[r+i])
				v += float64(x[i]) * float64(a[r+i])
			}
			e += d * d
			s += v * v
		}
	}
	return e / s
}

// For every type, products with held-out inputs change far less than by rounding
// to the nearest.
func TestQuantize(t *testing.T) {
	const n, rows = 256, 40 // not a multiple of rowGroup
	r := rand.New(rand.NewPCG(1, 7))
	x := inputs(r, 1400, n)
	calibration, heldOut := x[:1000*n], x[1000*n:]
	w := make([]float32, rows*n)
	for i := range w {
		w[i] = float32(r.NormFloat64())
	}
	one, three := pool.New(1), pool.New(3)
	defer one.Close()
	defer three.Close()
	f, err := NewRounder(products(calibration, n), n, one)
	if err != nil {
		t.Fatal(err)
	}
	again, err := NewRounder(products(calibration, n), n, three)
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []tensor.Type{
		tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.IQ4_NL, tensor.IQ4_XS,
		tensor.Q2_K, tensor.Q3_K, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K,
	} {
		b, y := make([]byte, rows*typ.RowBytes(n)), make([]float32, rows*n)
		quant.Quantize(b, w, typ)
		quant.Dequantize(y, b, typ)
		nearest := change(heldOut, w, y, n)
		f.Quantize(b, w, typ)
		quant.Dequantize(y, b, typ)
		ours := change(heldOut, w, y, n)
		t.Logf("%v: %.2e, to the nearest %.2e: %.2f", typ, ours, nearest, ours/nearest)
		if ours > 0.35*nearest {
			t.Errorf("%v: products change by %.2e, and by %.2e when rounding to the nearest", typ, ours, nearest)
		}
		c := make([]byte, len(b))
		if again.Quantize(c, w, typ); !bytes.Equal(b, c) {
			t.Errorf("%v: bytes depend on the number of threads", typ)
		}
		if again.Quantize(c[:typ.RowBytes(n)], w[:n], typ); !bytes.Equal(b[:typ.RowBytes(n)], c[:typ.RowBytes(n)]) {
			t.Errorf("%v: bytes of a row depend on the other rows", typ)
		}
	}
}

// (U+I)·D·(U+I)ᵀ equals H with its damping.
func TestRounder(t *testing.T) {
	const n = 70 // more than two column blocks, and not a multiple
	one := pool.New(2)
	defer one.Close()
	h := products(inputs(rand.New(rand.NewPCG(2, 7)), 200, n), n)
	f, err := NewRounder(h, n, one)
	if err != nil {
		t.Fatal(err)
	}
	mean := 0.0
	for i := range n {
		mean += float64(h[i*n+i]) / n
	}
	u := func(a, k int) float64 {
		switch {
		case a == k:
			return 1
		case a > k:
			return 0
		}
		return float64(f.row(k)[a])
	}
	for i := range n {
		for j := range n {
			var got float64
			for k := range n {
				got += u(i, k) * float64(f.d[k]) * u(j, k)
			}
			want := float64(h[i*n+j])
			if i == j {
				want += Damping * mean
			}
			if math.Abs(got-want) > 1e-5*mean {
				t.Fatalf("element %d, %d: %v, want %v", i, j, got, want)
			}
		}
	}
}

// Uncorrelated columns need no compensation: the result is that of plain rounding.
func TestUncorrelated(t *testing.T) {
	const n = 64
	one := pool.New(1)
	defer one.Close()
	h := make([]float32, n*n)
	for i := range n {
		h[i*n+i] = 3
	}
	f, err := NewRounder(h, n, one)
	if err != nil {
		t.Fatal(err)
	}
	w, weights := make([]float32, n), make([]float32, n)
	r := rand.New(rand.NewPCG(3, 7))
	for i := range w {
		w[i], weights[i] = float32(r.NormFloat64()), 3*(1+Damping)
	}
	got, want := make([]byte, tensor.Q4_1.RowBytes(n)), make([]byte, tensor.Q4_1.RowBytes(n))
	f.Quantize(got, w, tensor.Q4_1)
	rounder := quant.NewRounder(tensor.Q4_1)
	for b := range 2 {
		rounder.Begin(want[b*20:][:20], w[b*32:][:32], weights[b*32:][:32])
		for i := range 32 {
			rounder.Round(i, w[b*32+i])
		}
		rounder.End()
	}
	if !bytes.Equal(got, want) {
		t.Error("bytes differ from plain rounding")
	}
}

func TestNotPositiveDefinite(t *testing.T) {
	one := pool.New(1)
	defer one.Close()
	nan := float32(math.NaN())
	for name, h := range map[string][]float32{
		"zero": {0, 0, 0, 0}, "NaN": {nan, 0, 0, 1}, "infinite": {float32(math.Inf(1)), 0, 0, 1}, "not positive definite": {1, 2, 2, 1}, "negative": {-1, 0, 0, -1},
		"NaN off the diagonal": {1, nan, nan, 1},
	} {
		if _, err := NewRounder(h, 2, one); err == nil {
			t.Errorf("%s: factored", name)
		}
	}
}
