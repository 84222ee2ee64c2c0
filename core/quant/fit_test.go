package quant_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// noise returns n numbers distributed like weights, with some outliers.
func noise(n int) []float32 {
	rng := rand.New(rand.NewPCG(8, 9))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * 0.02)
		if i%97 == 0 {
			x[i] *= 4
		}
	}
	return x
}

// lost returns the root mean square error of an encoded row.
func lost(b []byte, x []float32, t tensor.Type) float64 {
	back := make([]float32, len(x))
	quant.Dequantize(back, b, t)
	sum := 0.0
	for i, v := range back {
		sum += float64(v-x[i]) * float64(v-x[i])
	}
	return math.Sqrt(sum / float64(len(x)))
}

// For types of 32 elements, Fit has a smaller error than Quantize, which
// preserves the extremes; for eight bits and floats they are equal.
func TestFit(t *testing.T) {
	x := noise(256 * 64)
	for typ, most := range map[tensor.Type]float64{
		tensor.Q4_1: 0.97, tensor.Q5_1: 0.98, tensor.Q4_0: 1, tensor.Q5_0: 1, tensor.Q8_0: 1, tensor.F16: 1,
	} {
		plain, fitted := make([]byte, typ.RowBytes(len(x))), make([]byte, typ.RowBytes(len(x)))
		quant.Quantize(plain, x, typ)
		quant.Fit(fitted, x, typ)
		if most == 1 {
			if !bytes.Equal(plain, fitted) {
				t.Errorf("%s: Fit and Quantize differ", typ)
			}
			continue
		}
		if p, f := lost(plain, x, typ), lost(fitted, x, typ); f > most*p {
			t.Errorf("%s: error %.6f of Fit, %.6f of Quantize", typ, f, p)
		}
	}
}

// The grid of 16 values of a published Q4_1 model is also a grid of 32.
func TestFitFindsTheGrid(t *testing.T) {
	x := noise(256 * 8)
	b := make([]byte, tensor.Q4_1.RowBytes(len(x)))
	quant.Fit(b, x, tensor.Q4_1)
	quant.Dequantize(x, b, tensor.Q4_1)
	finer := make([]byte, tensor.Q5_1.RowBytes(len(x)))
	quant.Fit(finer, x, tensor.Q5_1)
	fitted := lost(finer, x, tensor.Q5_1)
	quant.Quantize(finer, x, tensor.Q5_1)
	if plain := lost(finer, x, tensor.Q5_1); fitted > plain/5 {
		t.Errorf("error %.6f of Fit, %.6f of Quantize", fitted, plain)
	}
}

// With equal importance of all columns, Q3_K is encoded as without an
// importance matrix.
func TestEvenImportance(t *testing.T) {
	x, even := noise(256*8), make([]float32, 256*8)
	for i := range even {
		even[i] = 1
	}
	plain, weighted := make([]byte, tensor.Q3_K.RowBytes(len(x))), make([]byte, tensor.Q3_K.RowBytes(len(x)))
	quant.Fit(plain, x, tensor.Q3_K)
	quant.QuantizeWeighted(weighted, x, even, tensor.Q3_K)
	if !bytes.Equal(plain, weighted) {
		t.Error("Q3_K depends on a uniform importance matrix")
	}
}
