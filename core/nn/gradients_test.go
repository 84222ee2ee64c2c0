package nn

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGradientBlocks compares weight gradients of matrices on both sides of
// every limit of a block with sums in float64, made in one piece, in pieces in
// another order, and added to themselves.
func TestGradientBlocks(t *testing.T) {
	for _, s := range []struct{ out, in, n int }{
		{7, 5, 3},
		{gradRows + 1, gradColumns + 1, gradDepth + 1},
		{gradRows, 40, 2*gradDepth + 5},
		{3*gradRows + 50, gradColumns + 100, gradDepth}, // large, with a second block of rows
	} {
		t.Run(fmt.Sprintf("%dx%dx%d", s.out, s.in, s.n), func(t *testing.T) {
			p := NewParams[float32]([]Spec{{Name: "w", Shape: []int{s.out, s.in}}})
			product := NewProduct(p.Linear("w"), NewMatrix[float32](s.n, s.in), Matrix[float32]{}, NewMatrix[float32](s.n, s.out))
			r := NewRandom(5)
			for i := range s.n {
				FillNormal(product.X.Row(i), r, 1)
				FillNormal(product.DY.Row(i), r, 1)
			}
			g, dw := NewGradients(&product), p.Tensor("w").Grad
			g.Compute(NewGradientScratch[float32](), 0, g.Len(), false)
			for i := range s.out {
				for j := i % 7; j < s.in; j += 7 {
					want := 0.0
					for n := range s.n {
						want += float64(product.DY.Row(n)[i]) * float64(product.X.Row(n)[j])
					}
					if got := float64(dw[i*s.in+j]); math.Abs(got-want) > 1e-4 {
						t.Fatalf("dw[%d, %d] is %v, want %v", i, j, got, want)
					}
				}
			}
			once := slices.Clone(dw)
			clear(dw)
			scratch := NewGradientScratch[float32]()
			for b := g.Len() - 1; b >= 0; b-- {
				g.Compute(scratch, b, b+1, false)
			}
			if diff := cmp.Diff(once, dw); diff != "" {
				t.Errorf("blocks in another order differ: %s", diff)
			}
			g.Compute(scratch, 0, g.Len(), true)
			for i, v := range dw {
				if math.Abs(float64(v-2*once[i])) > 1e-4 {
					t.Fatalf("element %d added to itself is %v, want %v", i, v, 2*once[i])
				}
			}
		})
	}
}
