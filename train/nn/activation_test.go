package nn

import (
	"math"
	"testing"
)

// The kernels agree with the formulas in value and slope over the range that
// networks use.
func TestActivations(t *testing.T) {
	const n = 1000
	for _, a := range Activations() {
		x, y, d, s := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, 2*n)
		for i := range x {
			x[i], d[i] = float32(i-n/2)/25, 1 // -20 to 20
		}
		Act(a, y, x)
		ActBackward(a, d, d, x, s)
		for i, v := range x {
			value, slope := plainAct(a)(float64(v))
			if e := math.Abs(float64(y[i]) - value); e > 1e-6*max(1, math.Abs(value)) {
				t.Errorf("%s(%v) = %v, want %v", a, v, y[i], value)
			}
			if e := math.Abs(float64(d[i]) - slope); e > 2e-6 {
				t.Errorf("the slope of %s at %v = %v, want %v", a, v, d[i], slope)
			}
		}
	}
}
