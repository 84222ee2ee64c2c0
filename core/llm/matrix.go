package llm

import "mm-abi.org/mm/core/tensor"

// matrix is row-major activations: rows positions, ld elements apart, so that
// rows never lie at a distance at which caches evict one by the other.
type matrix[F tensor.Float] struct {
	data           []F
	rows, cols, ld int
}

func newMatrix[F tensor.Float](rows, cols int) matrix[F] {
	ld := tensor.Stride(cols)
	return matrix[F]{make([]F, rows*ld), rows, cols, ld}
}

// row is position t.
func (m matrix[F]) row(t int) []F { return m.data[t*m.ld : t*m.ld+m.cols] }

// part is the positions [lo, hi).
func (m matrix[F]) part(lo, hi int) matrix[F] {
	return matrix[F]{m.data[lo*m.ld : (hi-1)*m.ld+m.cols], hi - lo, m.cols, m.ld}
}

// columns is the columns [lo, hi) of every row.
func (m matrix[F]) columns(lo, hi int) matrix[F] {
	return matrix[F]{m.data[lo:], m.rows, hi - lo, m.ld}
}

// copyFrom copies equal shapes.
func (m matrix[F]) copyFrom(x matrix[F]) {
	if m.rows != x.rows || m.cols != x.cols {
		panic("llm: matrices differ in shape")
	}
	for t := range m.rows {
		copy(m.row(t), x.row(t))
	}
}

func (m matrix[F]) zero() {
	for t := range m.rows {
		clear(m.row(t))
	}
}

// left is m as the left factor of a product, leftT its transpose.
func (m matrix[F]) left() tensor.Left[F]  { return tensor.Rows(m.data, m.ld) }
func (m matrix[F]) leftT() tensor.Left[F] { return tensor.Columns(m.data, m.ld) }
