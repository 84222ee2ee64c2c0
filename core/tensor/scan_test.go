package tensor

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestDelta compares steps of the delta rule with the same in float64, and a value is
// read again by its key.
func TestDelta(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	const rows, n = 7, 19
	state, exact := make([]float32, rows*n), make([]float64, rows*n)
	for i := range state {
		state[i] = float32(r.NormFloat64())
		exact[i] = float64(state[i])
	}
	fill := func(k int) []float32 {
		x := make([]float32, k)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	for range 5 {
		y, v, k, q := make([]float32, rows), fill(rows), fill(n), fill(n)
		Scale(k, 1/float32(math.Sqrt(float64(Dot(k, k)))))
		const decay, beta = 0.875, 0.25
		Delta(y, state, v, k, q, decay, beta)
		for i := range rows {
			row, held, got := exact[i*n:][:n], 0.0, 0.0
			for j := range row {
				row[j] *= decay
				held += row[j] * float64(k[j])
			}
			for j := range row {
				row[j] += beta * (float64(v[i]) - held) * float64(k[j])
				got += row[j] * float64(q[j])
			}
			if math.Abs(float64(y[i])-got) > 1e-5*(1+math.Abs(got)) {
				t.Fatalf("row %d: got %v, want %v", i, y[i], got)
			}
		}
		Delta(y, state, v, k, k, 1, 1) // replaces the value of the key
		for i := range rows {
			if math.Abs(float64(y[i]-v[i])) > 1e-5 {
				t.Fatalf("row %d: got %v by its key, want %v", i, y[i], v[i])
			}
			for j := range n {
				exact[i*n+j] = float64(state[i*n+j])
			}
		}
	}
	for _, c := range [][4]int{{2, 2, 3, 3}, {1, 2, 3, 3}, {2, 2, 3, 2}, {2, 1, 3, 3}} { // y, v, k, q of a state of 6
		func() {
			defer func() {
				if panics := recover() != nil; panics != (c != [4]int{2, 2, 3, 3}) {
					t.Errorf("lengths %v: panic is %v", c, panics)
				}
			}()
			Delta(make([]float32, c[0]), make([]float32, 6), make([]float32, c[1]), make([]float32, c[2]), make([]float32, c[3]), 1, 1)
		}()
	}
}
