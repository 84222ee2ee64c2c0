package quant

import (
	"math"
	"strings"
	"testing"

	"mm-abi.org/mm/core/tensor"
)

// TestFinite finds NaN and infinity in the first, a middle and the last element
// of every type with a float or a scale that can be one.
func TestFinite(t *testing.T) {
	const n = 3 << 13
	for typ := range tensor.Type(64) {
		if !CanQuantize(typ) {
			continue
		}
		x, out := make([]float32, n), make([]byte, typ.RowBytes(n))
		for i := range x {
			x[i] = float32(i%17) - 8
		}
		Quantize(out, x, typ)
		if err := Finite(out, typ); err != nil {
			t.Errorf("%s: %v", typ, err)
		}
		for _, at := range []int{0, n/2 + 5, n - 1} {
			for _, bad := range []float64{math.NaN(), math.Inf(-1)} {
				y := append([]float32(nil), x...)
				y[at] = float32(bad)
				if !isFloat(typ) { // a scale of fp16 overflows
					y[at] = 3e38
				}
				Quantize(out, y, typ)
				err := Finite(out, typ)
				finite := true // as the decoder computes it
				Dequantize(y, out, typ)
				for _, v := range y {
					finite = finite && !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)
				}
				if finite != (err == nil) {
					t.Errorf("%s, element %d: finite %v, got %v", typ, at, finite, err)
				}
				if isFloat(typ) && (err == nil || !strings.HasPrefix(err.Error(), "element ")) {
					t.Errorf("%s, element %d: got %v", typ, at, err)
				}
			}
		}
	}
}
