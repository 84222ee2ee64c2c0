package export_test

import (
	"math"
	"slices"
	"testing"

	"mm-abi.org/mm/assemble/export"
)

// Scales are normal floats, also for weights of which nothing remains.
func TestInt8Scales(t *testing.T) {
	normal := float32(0x1p-126)
	for _, largest := range []float32{0, math.SmallestNonzeroFloat32, normal, 126 * normal, 127 * normal, 128 * normal, 1} {
		codes, scales := export.Int8s([]float32{largest, -largest / 2, 1, 1}, []int{2, 2}, 0)
		if scales[0] < normal {
			t.Errorf("%v: got scale %v", largest, scales[0])
		}
		if lost := largest < 127*normal; lost != (slices.Max(codes[:2]) == 0) {
			t.Errorf("%v: got codes %v with scale %v", largest, codes, scales[0])
		}
	}
}
