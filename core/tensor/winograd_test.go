package tensor

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The transforms with a product between them equal the convolution; the
// assembly agrees with plain Go.
func TestWinograd(t *testing.T) {
	for _, k := range []ConvKernels{BestConv(), PlainConv(4)} {
		r := rand.New(rand.NewPCG(1, 2))
		n := k.lanes
		const row, step = 9, 3 // vectors
		x, tmp := random(r, (5*row+6)*n), make([]float32, 36*n)
		v, other := make([]float32, (35*step+1)*n), make([]float32, (35*step+1)*n)
		k.WinogradInput(v, step*n, x, row*n, tmp)
		PlainConv(n).WinogradInput(other, step*n, x, row*n, tmp)
		agrees(t, "input", v, other, 100)
		var w [9]float32
		copy(w[:], random(r, 9))
		var u [36]float32
		WinogradWeights(&u, &w)
		for i := range 36 {
			for l := range n {
				v[i*step*n+l] *= u[i]
			}
		}
		bias, add := random(r, n), random(r, (3*row+4)*n)
		for _, more := range [][]float32{nil, add} {
			got, plain := random(r, (3*row+4)*n), make([]float32, (3*row+4)*n)
			copy(plain, got)
			k.WinogradOutput(got, row*n, v, step*n, tmp, bias, more, -2, 2)
			PlainConv(n).WinogradOutput(plain, row*n, v, step*n, tmp, bias, more, -2, 2)
			agrees(t, "output", got, plain, 100)
			for i := range 16 * n {
				y, c, l := i/n/4, i/n%4, i%n
				at := (y*row+c)*n + l
				sum := float64(bias[l])
				if more != nil {
					sum += float64(more[at])
				}
				for j := range 9 {
					sum += float64(x[((y+j/3)*row+c+j%3)*n+l]) * float64(w[j])
				}
				if sum = min(max(sum, -2), 2); !(math.Abs(sum-float64(got[at])) < 5e-5) {
					t.Fatalf("%d lanes: output %d, %d of lane %d : got %g, want %g", n, y, c, l, got[at], sum)
				}
			}
		}
	}
}
