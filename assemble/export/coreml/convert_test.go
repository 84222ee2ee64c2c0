package coreml

import "testing"

// TestWeightsInRange adds weights beyond the range of 16-bit floats in each precision.
func TestWeightsInRange(t *testing.T) {
	for precision, ok := range map[string]bool{fp32: true, fp16: false, int8s: false} {
		c := &converter{w: &weights{}, precision: precision, float: Float16, names: map[string]bool{}}
		if precision == fp32 {
			c.float = Float32
		}
		x := make([]float32, 32) // fewer than int8 rounds
		c.weights("w", x, []int{4, 8}, 0)
		if c.err != nil {
			t.Errorf("%s: %v", precision, c.err)
		}
		x[3] = 2 * largestHalf
		if c.weights("w", x, []int{4, 8}, 0); (c.err == nil) != ok {
			t.Errorf("%s: weight %g: %v", precision, x[3], c.err)
		}
	}
}
