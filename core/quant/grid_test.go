package quant

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/core/tensor"
)

var weighable = []tensor.Type{
	tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.IQ4_NL, tensor.IQ4_XS,
	tensor.Q2_K, tensor.Q3_K, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K,
}

// loss returns Σ importance·(y - x)².
func loss(y, x, importance []float32) float64 {
	var sum float64
	for i := range x {
		d := float64(y[i] - x[i])
		sum += float64(importance[i]) * d * d
	}
	return sum
}

// For every type, weighting reduces the weighted loss by at least the expected
// share.
func TestQuantizeWeighted(t *testing.T) {
	// The remaining share of the weighted loss, measured once and rounded up.
	most := map[tensor.Type]float64{
		tensor.Q8_0: 0.66, tensor.Q4_0: 0.44, tensor.Q4_1: 0.28, tensor.Q5_0: 0.46, tensor.Q5_1: 0.3, tensor.IQ4_NL: 0.46, tensor.IQ4_XS: 0.45,
		tensor.Q2_K: 0.23, tensor.Q3_K: 0.38, tensor.Q4_K: 0.38, tensor.Q5_K: 0.44, tensor.Q6_K: 0.48,
	}
	r := rand.New(rand.NewPCG(11, 11))
	const n = 256 * 60
	x, importance := normal(r, n), make([]float32, n)
	for i := range importance {
		importance[i] = float32(math.Exp(2 * r.NormFloat64()))
	}
	for _, typ := range weighable {
		plain, weighted := make([]byte, typ.RowBytes(n)), make([]byte, typ.RowBytes(n))
		y, z := make([]float32, n), make([]float32, n)
		Quantize(plain, x, typ)
		QuantizeWeighted(weighted, x, importance, typ)
		Dequantize(y, plain, typ)
		Dequantize(z, weighted, typ)
		share := loss(z, x, importance) / loss(y, x, importance)
		t.Logf("%v: %.3f of the loss", typ, share)
		if share > most[typ] {
			t.Errorf("%v: %.3f of the weighted loss remains, want at most %v", typ, share, most[typ])
		}
		again := make([]byte, len(weighted))
		if QuantizeWeighted(again, x, importance, typ); !bytes.Equal(again, weighted) {
			t.Errorf("%v: output differs the second time", typ)
		}
	}
}

// Importance of zero or infinity counts as uniform; no value causes a panic.
func TestWeightedHostile(t *testing.T) {
	inf := float32(math.Inf(1))
	x := normal(rand.New(rand.NewPCG(12, 12)), 256)
	for _, typ := range weighable {
		b, y := make([]byte, typ.RowBytes(256)), make([]float32, 256)
		for _, v := range []float32{0, math.SmallestNonzeroFloat32, math.MaxFloat32, inf} {
			importance := make([]float32, 256)
			for i := range importance {
				importance[i] = v
			}
			QuantizeWeighted(b, x, importance, typ)
			if Dequantize(y, b, typ); !(rmse(y, x) < 0.35) {
				t.Errorf("%v, importance %v: error %v", typ, v, rmse(y, x))
			}
		}
		for _, v := range []float32{0, inf, -inf, float32(math.NaN()), math.MaxFloat32} {
			odd, importance := make([]float32, 256), make([]float32, 256)
			for i := range odd {
				odd[i], importance[i] = v, float32(i%3)
			}
			QuantizeWeighted(b, odd, importance, typ)
			Dequantize(y, b, typ)
		}
	}
	for _, typ := range []tensor.Type{tensor.F32, tensor.F16, tensor.MXFP4} { // without a scale to choose
		want, got := make([]byte, typ.RowBytes(256)), make([]byte, typ.RowBytes(256))
		Quantize(want, x, typ)
		if QuantizeWeighted(got, x, x, typ); !bytes.Equal(want, got) {
			t.Errorf("%v: importance changes a type without fitted scales", typ)
		}
	}
}

// Rounding each element to the nearest, one at a time, has the output of
// QuantizeWeighted, and Round returns the encoded values.
func TestRounder(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 13))
	for _, typ := range weighable {
		n := typ.BlockSize()
		x, w := normal(r, n), make([]float32, n)
		for i := range w {
			w[i] = float32(r.Float64()) + 0.1
		}
		g, _ := gridOf(typ)
		want, got := make([]byte, typ.BlockBytes()), make([]byte, typ.BlockBytes())
		g.encode(want, x, w)
		rounder := NewRounder(typ)
		for range 2 { // a rounder is reused for many blocks
			rounder.Begin(got, x, w)
			values := make([]float32, n)
			for i, v := range x {
				values[i] = rounder.Round(i, v)
			}
			rounder.End()
			y := make([]float32, n)
			Dequantize(y, got, typ)
			if !bytes.Equal(want, got) || rmse(values, y) > 1e-6 {
				t.Errorf("%v: output differs, or error %v of the returned values", typ, rmse(values, y))
			}
		}
	}
}
