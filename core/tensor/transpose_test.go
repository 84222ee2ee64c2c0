package tensor

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestTranspose(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, rows := range []int{0, 1, 2, 3, 7, 8, 9, 16, 31, 70} { // includes contiguous rows of three
		for _, cols := range []int{0, 1, 3, 8, 15, 64, 65, 136} {
			lds, ldd := cols+r.IntN(2)*r.IntN(3), rows+r.IntN(2)*r.IntN(3)
			src, dst, want := normal(r, rows*lds+1, 1), normal(r, cols*ldd+1, 1), []float32(nil)
			want = append(want, dst...)
			for i := range rows {
				for j := range cols {
					want[j*ldd+i] = src[i*lds+j]
				}
			}
			Transpose(dst, ldd, src, lds, rows, cols)
			if !slices.Equal(dst, want) {
				t.Fatalf("%d×%d, %d and %d apart: wrong result", rows, cols, lds, ldd)
			}
		}
	}
}

// A matrix is transposed in parts of its columns and of its rows; the last part
// of either ends with the matrix.
func TestTransposeParts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, rows := range []int{8, 13, 64} {
		for _, cols := range []int{16, 40, 67} {
			src, want := normal(r, rows*cols, 1), make([]float32, rows*cols)
			Transpose(want, rows, src, cols, rows, cols)
			byColumns, byRows := make([]float32, rows*cols), make([]float32, rows*cols)
			for k := 0; k < cols; k += 8 {
				Transpose(byColumns[k*rows:], rows, src[k:], cols, rows, min(8, cols-k))
			}
			for k := 0; k < rows; k += 8 {
				Transpose(byRows[k:], rows, src[k*cols:], cols, min(8, rows-k), cols)
			}
			if !slices.Equal(byColumns, want) || !slices.Equal(byRows, want) {
				t.Errorf("%d×%d: wrong result in parts", rows, cols)
			}
		}
	}
}
