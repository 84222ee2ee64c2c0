package samples_test

import (
	"os"
	"slices"
	"testing"

	"mm-abi.org/mm/lab/device/protocol"
	"mm-abi.org/mm/lab/device/samples"
)

// A file of more than MaxBytes is refused before it is read, and so is more than MaxSamples sets.
func TestLimits(t *testing.T) {
	files(t, map[string][]byte{"x.raw": floats(1, 2), "big.raw": nil})
	if err := os.Truncate("big.raw", samples.MaxBytes+1); err != nil { // sparse
		t.Fatal(err)
	}
	j := job(t, false)
	if _, err := samples.Read(t.Context(), j, samples.Options{Places: []string{"big.raw"}}); err == nil {
		t.Error("MaxBytes: larger file accepted")
	}
	for n, ok := range map[int]bool{protocol.MaxSamples: true, protocol.MaxSamples + 1: false} {
		if _, err := samples.Read(t.Context(), j, samples.Options{Places: slices.Repeat([]string{"x.raw"}, n)}); (err == nil) != ok {
			t.Errorf("MaxSamples: %d sets: %v", n, err)
		}
	}
}
