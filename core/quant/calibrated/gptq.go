package calibrated

import (
	"fmt"
	"math"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
)

// Damping is the fraction of the mean of H's diagonal that is added to the
// diagonal, because a text does not exercise every direction of the inputs.
const Damping = 0.01

// Rounder rounds the weights of a matrix so that its products change little:
// the columns that follow compensate for the rounding error of each column
// (GPTQ; Frantar et al., arXiv 2210.17323).
//
// The loss of a row is e·H·eᵀ, with H = Σ x·xᵀ over the inputs x of a text and
// e the rounding error. With H = (U+I)·D·(U+I)ᵀ, U strictly upper triangular
// and D diagonal, the loss is Σ_k D_k·(e_k + Σ_{a<k} e_a·U_ak)². So each column
// is rounded after the errors of the columns before it are subtracted, and D
// weighs a column's error after the later columns have compensated. That is
// GPTQ without the inverse of H (Chee et al., arXiv 2307.13304, theorem 6).
type Rounder struct {
	n int
	// back holds row k of Uᵀ, U_ak for a < k, at k·(k-1)/2.
	back []float32
	d    []float32 // n
}

// NewRounder factors H, an n × n symmetric matrix of which only the lower
// triangle is read. It returns an error if H holds NaN or an infinity or is not
// positive definite.
func NewRounder(h []float32, n int, threads *pool.Pool) (*Rounder, error) {
	if len(h) != n*n || n == 0 {
		panic("gptq: matrix size mismatch")
	}
	// Cholesky's factor G of H in reverse order: its rows depend on the rows
	// before them, and the rows of U on the rows after them.
	mean := 0.0
	for i := range n {
		mean += float64(h[i*n+i])
	}
	mean /= float64(n)
	if !(mean > 0) || math.IsInf(mean, 0) {
		return nil, fmt.Errorf("gptq: mean square of the inputs is %v", mean)
	}
	rows := make([][]float64, n)
	for i := range rows {
		row := make([]float64, i+1)
		for j := range row {
			row[j] = float64(h[(n-1-j)*n+n-1-i]) // in the lower triangle
		}
		row[i] += Damping * mean
		rows[i] = row
	}
	if err := cholesky(rows, threads); err != nil {
		return nil, err
	}
	f := &Rounder{n: n, back: make([]float32, n*(n-1)/2), d: make([]float32, n)}
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

// row returns the coefficients of the columns before column k.
func (f *Rounder) row(k int) []float32 { return f.back[k*(k-1)/2:][:k] }

// columnBlock is the number of columns of G that are computed before the rows
// below them.
const columnBlock = 32

// cholesky replaces the lower triangle of a by its Cholesky factor.
func cholesky(a [][]float64, threads *pool.Pool) error {
	n := len(a)
	for lo := 0; lo < n; lo += columnBlock {
		hi := min(lo+columnBlock, n)
		for j := lo; j < hi; j++ {
			solve(a, a[j], lo, j)
			v := a[j][j] - inner(a[j][:j], a[j][:j])
			if !(v > 0) || math.IsInf(v, 0) {
				return fmt.Errorf("gptq: column %d of %d: the matrix of input products is not positive definite", n-1-j, n)
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

// inner returns Σ x[i]·y[i].
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

// rowGroup is the number of rows that are rounded rowGroup, so that they share
// the loads of the factor.
const rowGroup = 16

// Quantize writes rows of n weights as type t, which must satisfy
// [quant.CanWeigh]. Rows are independent of each other. The scale of each block
// of t is fitted when the block is reached.
func (f *Rounder) Quantize(dst []byte, x []float32, t tensor.Type) {
	rows, size := len(x)/f.n, t.RowBytes(f.n)
	if len(x) != rows*f.n || len(dst) != rows*size {
		panic("gptq: row size mismatch")
	}
	var lanes [rowGroup]*quant.Rounder
	errs := make([]float32, rowGroup*f.n)
	target := make([]float32, rowGroup*t.BlockSize())
	for from := 0; from < rows; from += rowGroup {
		n := min(rowGroup, rows-from)
		for i := range n {
			if lanes[i] == nil {
				lanes[i] = quant.NewRounder(t)
			}
		}
		f.round(dst[from*size:(from+n)*size], x[from*f.n:(from+n)*f.n], t, lanes[:n], errs, target)
	}
}

// round rounds up to rowGroup rows.
func (f *Rounder) round(dst []byte, x []float32, t tensor.Type, lanes []*quant.Rounder, errs, target []float32) {
	block, size, row := t.BlockSize(), t.BlockBytes(), t.RowBytes(f.n)
	for lo := 0; lo < f.n; lo += block {
		hi := lo + block
		// The target of each column of the block, corrected for the columns
		// before it.
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
