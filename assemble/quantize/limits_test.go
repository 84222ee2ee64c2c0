package quantize

import "testing"

func TestLimits(t *testing.T) {
	for n, ok := range map[int64]bool{maxText: true, maxText + 1: false} {
		if err := checkTextSize("imatrix", n); (err == nil) != ok {
			t.Errorf("file of %d bytes: %v", n, err)
		}
	}
}
