package device_test

import (
	"os"
	"slices"
	"testing"

	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/lab/device/protocol"
)

// A file of more than MaxBytes is refused before it is read, and so is more than MaxSamples sets.
func TestSamplesLimits(t *testing.T) {
	files(t, map[string][]byte{"x.raw": floats(1, 2), "big.raw": nil})
	if err := os.Truncate("big.raw", device.MaxSamples+1); err != nil { // sparse
		t.Fatal(err)
	}
	j := job(t, false)
	if _, err := device.ReadSamples(t.Context(), j, device.SampleOptions{Places: []string{"big.raw"}}); err == nil {
		t.Error("MaxBytes: larger file accepted")
	}
	for n, ok := range map[int]bool{protocol.MaxSamples: true, protocol.MaxSamples + 1: false} {
		if _, err := device.ReadSamples(t.Context(), j, device.SampleOptions{Places: slices.Repeat([]string{"x.raw"}, n)}); (err == nil) != ok {
			t.Errorf("MaxSamples: %d sets: %v", n, err)
		}
	}
}
