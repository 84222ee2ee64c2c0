package sound

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// The singular vectors equal LAPACK's up to their sign.
func TestRightSingular(t *testing.T) {
	const n, m = 40, 300
	rng := rand.New(rand.NewPCG(1, 2))
	rows, dense := make([][]float64, n), mat.NewDense(n, m, nil)
	for i := range rows {
		rows[i] = make([]float64, m)
		for k := range rows[i] {
			rows[i][k] = rng.NormFloat64() * float64(n-i)
			dense.Set(i, k, rows[i][k])
		}
	}
	rows[n-1] = make([]float64, m) // of lower rank
	dense.SetRow(n-1, rows[n-1])
	var svd mat.SVD
	if !svd.Factorize(dense, mat.SVDThin) {
		t.Fatal("no decomposition")
	}
	var v mat.Dense
	svd.VTo(&v)
	got := rightSingular(rows)
	for c := range n - 1 {
		if cos := math.Abs(dot(got[c], mat.Col(nil, c, &v))); cos < 1-1e-9 {
			t.Errorf("vector %d: cosine %v", c, cos)
		}
	}
	if got[n-1] != nil {
		t.Error("a zero singular value has a vector")
	}
}
