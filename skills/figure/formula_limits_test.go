package figure

import (
	"strings"
	"testing"
)

// TestPrintLimits covers maxParts and minPrint on either side.
func TestPrintLimits(t *testing.T) {
	for n, want := range map[int]bool{maxParts: true, maxParts + 1: false} {
		k := &Ink{W: 5 * n, H: 4, Pix: make([]float32, 20*n)}
		for i := range n {
			for x := range 3 {
				k.Pix[5*i+x] = 1
			}
		}
		if out, err := parts(free{}, k); (err == nil) != want || want && len(out) != n {
			t.Errorf("%d parts: got %d, %v", n, len(out), err)
		}
	}
	for side, want := range map[int]string{minPrint - 1: "too small", minSide: "no print"} {
		for _, size := range [][2]int{{side, minPrint}, {minPrint, side}} {
			_, err := ReadFormula(free{}, &Set{}, make([]byte, 3*size[0]*size[1]), size[0], size[1])
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: got %v, want %q", size, err, want)
			}
		}
	}
}
