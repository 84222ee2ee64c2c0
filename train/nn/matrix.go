package nn

import "mm-abi.org/mm/core/tensor"

// Matrix is row-major activations: Rows positions, LD elements apart, so that
// rows never lie at a distance at which caches evict one by the other.
type Matrix[F tensor.Float] struct {
	Data           []F
	Rows, Cols, LD int
}

// NewMatrix allocates zeros.
func NewMatrix[F tensor.Float](rows, cols int) Matrix[F] {
	ld := tensor.Stride(cols)
	return Matrix[F]{make([]F, rows*ld), rows, cols, ld}
}

// Row is position t.
func (m Matrix[F]) Row(t int) []F { return m.Data[t*m.LD : t*m.LD+m.Cols] }

// Part is the positions [lo, hi).
func (m Matrix[F]) Part(lo, hi int) Matrix[F] {
	return Matrix[F]{m.Data[lo*m.LD : (hi-1)*m.LD+m.Cols], hi - lo, m.Cols, m.LD}
}

// Columns is the columns [lo, hi) of every row.
func (m Matrix[F]) Columns(lo, hi int) Matrix[F] {
	return Matrix[F]{m.Data[lo:], m.Rows, hi - lo, m.LD}
}

// CopyFrom copies equal shapes.
func (m Matrix[F]) CopyFrom(x Matrix[F]) {
	if m.Rows != x.Rows || m.Cols != x.Cols {
		panic("nn: matrices differ in shape")
	}
	for t := range m.Rows {
		copy(m.Row(t), x.Row(t))
	}
}

// Zero clears every row.
func (m Matrix[F]) Zero() {
	for t := range m.Rows {
		clear(m.Row(t))
	}
}

// Left is m as the left factor of a product, LeftT its transpose.
func (m Matrix[F]) Left() tensor.Left[F] { return tensor.Rows(m.Data, m.LD) }

// LeftT is the transpose of m as the left factor of a product.
func (m Matrix[F]) LeftT() tensor.Left[F] { return tensor.Columns(m.Data, m.LD) }

// factor is what a product multiplies its destination by.
func factor[F tensor.Float](add bool) F {
	if add {
		return 1
	}
	return 0
}
