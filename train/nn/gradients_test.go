package nn

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/tensor"
)

// linearProducts returns the output and the gradients of the input and the
// weights of a linear layer on fixed numbers: rounded to bfloat16 beforehand,
// by its products, or not at all. Its weights are frozen when they are packed.
func linearProducts(beforehand, inside bool) map[string][]float32 {
	const n, in, out = 150, 70, 40
	p := NewParams[float32]([]Spec{{Name: "w", Shape: []int{out, in}}})
	l := p.Linear("w")
	product := NewProduct(l, NewMatrix[float32](n, in), NewMatrix[float32](n, out), NewMatrix[float32](n, out))
	r, dx := NewRandom(5), NewMatrix[float32](n, in)
	for _, x := range [][]float32{p.Tensor("w").Data, product.X.Data, product.DY.Data} {
		FillNormal(x, r, 1)
		for i := range x {
			if beforehand {
				x[i] = tensor.BF16ToF32(tensor.F32ToBF16(x[i]))
			}
		}
	}
	l.Pack(true) // before BF16 is set, which applies from the next Pack
	p.BF16 = inside
	p.Freeze(func(string) bool { return true })
	l.Pack(false)
	p.Freeze(func(string) bool { return false })
	product.Forward(0, n, false)
	product.Backward(dx, 0, n, true)
	g := NewGradients(&product)
	g.Compute(p.GradientScratch(), 0, g.Len(), false)
	return map[string][]float32{"output": product.Y.Data, "gradient of the input": dx.Data, "gradient of the weights": p.Tensor("w").Grad}
}

// All three products of a linear layer read bfloat16.
func TestBF16(t *testing.T) {
	got, want, float := linearProducts(false, true), linearProducts(true, false), linearProducts(false, false)
	distance := func(a, b []float32) (d float64) {
		for i := range a {
			d = max(d, math.Abs(float64(a[i]-b[i])))
		}
		return d
	}
	for name := range got {
		if d := distance(got[name], want[name]); !(d < 1e-4) {
			t.Errorf("%s: %g from rounded numbers", name, d)
		}
		if d := distance(got[name], float[name]); d < 1e-3 {
			t.Errorf("%s: %g from float32", name, d)
		}
	}
}

// Weight gradients of matrices on both sides of every block limit (gradRows,
// gradColumns, gradDepth, largeGradient) equal sums in float64, computed at
// once, in parts in another order, and added to themselves.
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
