package panel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
)

// BenchmarkFewRows measures the batches below a tile, one thread: the median of
// a product and its ratio to that of one row in the same run.
func BenchmarkFewRows(b *testing.B) {
	threads := pool.New(1)
	defer threads.Close()
	const n, k = 2048, 2048
	for _, typ := range []tensor.Type{tensor.Q4_0, tensor.Q8_0, tensor.Q4_K, tensor.Q6_K, tensor.F16} {
		r := rand.New(rand.NewPCG(3, 3))
		m, err := New(typ, n, k, randomRows(r, typ, n, k), threads, nil)
		if err != nil {
			b.Fatal(err)
		}
		var one float64
		for rows := 1; rows <= 8; rows++ {
			b.Run(fmt.Sprint(typ, "/", rows), func(b *testing.B) {
				x := randomBatch(r, rows, k)
				y := make([]float32, 8*n)
				var s Scratch
				var took []float64
				for b.Loop() {
					begin := time.Now()
					m.Mul(y, n, x, 0, n, &s)
					took = append(took, time.Since(begin).Seconds())
				}
				slices.Sort(took)
				median := took[len(took)/2]
				if rows == 1 {
					one = median
				}
				b.ReportMetric(median*1e6, "µs/median")
				b.ReportMetric(median/one, "rows")
			})
		}
	}
}

// The products do not depend on the types of weights for which a scratch was used
// before: the matrices of a model may have several.
func TestScratch(t *testing.T) {
	threads := pool.New(1)
	defer threads.Close()
	const n, k = 32, 256
	r := rand.New(rand.NewPCG(3, 4))
	batch := randomBatch(r, 9, k)
	matrices := map[tensor.Type]*Matrix{}
	for _, typ := range allTypes {
		m, err := New(typ, n, k, randomRows(r, typ, n, k), threads, nil)
		if err != nil {
			t.Fatal(err)
		}
		matrices[typ] = m
	}
	for _, first := range allTypes {
		for _, second := range allTypes {
			scratch, got, want := &Scratch{}, make([]float32, 16*n), make([]float32, 16*n)
			matrices[first].Mul(got, n, batch, 0, n, scratch)
			matrices[second].Mul(got, n, batch, 0, n, scratch)
			matrices[second].Mul(want, n, batch, 0, n, &Scratch{})
			if !slices.Equal(got, want) {
				t.Errorf("%v after %v: products differ from those of a new scratch", second, first)
			}
		}
	}
}
