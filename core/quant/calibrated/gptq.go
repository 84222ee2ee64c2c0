// Package gptq rounds the weights of a matrix so that its products, not its
// elements, stay what they were: what rounding one column has changed is made
// up for by the columns that follow (Frantar et al., arXiv 2210.17323).
//
// The loss of a row is e·H·eᵀ with H = Σ x·xᵀ over the inputs x of a text and
// e what rounding changes. With H = (U+I)·D·(U+I)ᵀ, U strictly upper triangular
// and D diagonal, it is Σ_k D_k·(e_k + Σ_{a<k} e_a·U_ak)²; so each column is
// rounded after what the ones before it have left is taken off, and D says how
// much a column matters once the later ones have made up for it. That is GPTQ
// without the inverse of H (Chee et al., arXiv 2307.13304, theorem 6).
//
// [New] factors H, [Factor.Quantize] rounds rows, which are independent of each
// other. Scales are those of the type's blocks, fitted when the block is
// reached.
package calibrated

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// Damping is the share of the mean of H's diagonal that is added to it, for
// texts do not show all directions that inputs may take.
const Damping = 0.01

// Factor is how the columns of a matrix depend on each other.
type Factor struct {
	n int
	// back holds row k of Uᵀ, U_ak for a < k, at k·(k-1)/2.
	back []float32
	d    []float32 // n
}

// New factors H, n × n and symmetrical, of which the lower triangle is read. It
// is an error if H holds numbers that are none, or is no sum of squares.
func New(h []float32, n int, threads *pool.Pool) (*Factor, error) {
	if len(h) != n*n || n == 0 {
		panic("gptq: a matrix of another size")
	}
	// Cholesky's factor G of H in reverse order: its rows depend on those
	// before them, and U's on those behind.
	mean := 0.0
	for i := range n {
		mean += float64(h[i*n+i])
	}
	mean /= float64(n)
	if !(mean > 0) || math.IsInf(mean, 0) {
		return nil, fmt.Errorf("gptq: the inputs' mean square is %v", mean)
	}
	rows := make([][]float64, n)
	for i := range rows {
		row := make([]float64, i+1)
		for j := range row {
			row[j] = float64(h[(n-1-j)*n+n-1-i]) // of the lower triangle
		}
		row[i] += Damping * mean
		rows[i] = row
	}
	if err := cholesky(rows, threads); err != nil {
		return nil, err
	}
	f := &Factor{n: n, back: make([]float32, n*(n-1)/2), d: make([]float32, n)}
	for k := range n {
		r := n - 1 - k
		g := rows[r][r]
		f.d[k] = float32(g * g)
		row := f.row(k)
		for a := range row {
			row[a] = float32(rows[n-1-a][r] / g)
		}
	}
	return f, nil
}

// row is what column k takes from those before it.
func (f *Factor) row(k int) []float32 { return f.back[k*(k-1)/2:][:k] }

// panel is how many columns of G are computed before the rows behind them.
const panel = 32

// cholesky replaces the lower triangle of a by that of its factor.
func cholesky(a [][]float64, threads *pool.Pool) error {
	n := len(a)
	for lo := 0; lo < n; lo += panel {
		hi := min(lo+panel, n)
		for j := lo; j < hi; j++ {
			solve(a, a[j], lo, j)
			v := a[j][j] - inner(a[j][:j], a[j][:j])
			if !(v > 0) || math.IsInf(v, 0) {
				return fmt.Errorf("gptq: column %d of %d: the inputs' products are no sum of squares", n-1-j, n)
			}
			a[j][j] = math.Sqrt(v)
		}
		threads.For(n-hi, 8, pool.Func(func(_, from, to int) {
			for i := hi + from; i < hi+to; i++ {
				solve(a, a[i], lo, hi)
			}
		}))
	}
	return nil
}

// solve computes the elements lo to hi of a row of the factor.
func solve(a [][]float64, row []float64, lo, hi int) {
	for j := lo; j < hi; j++ {
		row[j] = (row[j] - inner(row[:j], a[j][:j])) / a[j][j]
	}
}

// inner is Σ x[i]·y[i].
func inner(x, y []float64) float64 {
	var s0, s1, s2, s3 float64
	y = y[:len(x)]
	i := 0
	for ; i+4 <= len(x); i += 4 {
		s0 += x[i] * y[i]
		s1 += x[i+1] * y[i+1]
		s2 += x[i+2] * y[i+2]
		s3 += x[i+3] * y[i+3]
	}
	for ; i < len(x); i++ {
		s0 += x[i] * y[i]
	}
	return (s0 + s1) + (s2 + s3)
}

// together is how many rows are rounded column by column: they share the loads
// of the factor.
const together = 16

// Quantize writes rows of n weights as type t, which must be one that
// [quant.CanWeigh].
func (f *Factor) Quantize(dst []byte, x []float32, t tensor.Type) {
	rows, size := len(x)/f.n, t.RowBytes(f.n)
	if len(x) != rows*f.n || len(dst) != rows*size {
		panic("gptq: rows of another size")
	}
	var lanes [together]*quant.Rounder
	errs := make([]float32, together*f.n)
	target := make([]float32, together*t.BlockSize())
	for from := 0; from < rows; from += together {
		n := min(together, rows-from)
		for i := range n {
			if lanes[i] == nil {
				lanes[i] = quant.NewRounder(t)
			}
		}
		f.round(dst[from*size:(from+n)*size], x[from*f.n:(from+n)*f.n], t, lanes[:n], errs, target)
	}
}

// round rounds a few rows.
func (f *Factor) round(dst []byte, x []float32, t tensor.Type, lanes []*quant.Rounder, errs, target []float32) {
	block, size, row := t.BlockSize(), t.BlockBytes(), t.RowBytes(f.n)
	for lo := 0; lo < f.n; lo += block {
		hi := lo + block
		// What the columns before the block leave to each of its columns.
		for k := lo; k < hi; k++ {
			back := f.row(k)
			for i := range lanes {
				target[i*block+k-lo] = x[i*f.n+k] - tensor.Dot(errs[i*f.n:][:lo], back[:lo])
			}
		}
		for i, r := range lanes {
			at := i*row + lo/block*size
			e, want := errs[i*f.n:][:f.n], target[i*block:][:block]
			r.Begin(dst[at:at+size], want, f.d[lo:hi])
			for k := lo; k < hi; k++ {
				v := want[k-lo] - tensor.Dot(e[lo:k], f.row(k)[lo:k])
				e[k] = r.Round(k-lo, v) - x[i*f.n+k]
			}
			r.End()
		}
	}
}
