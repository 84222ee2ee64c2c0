package nn

import "mm-abi.org/mm/core/tensor"

// Matrix is a row-major matrix of activations: Rows positions, LD elements
// apart. LD avoids distances at which rows evict each other from caches.
type Matrix[F tensor.Float] struct {
	Data           []F
	Rows, Cols, LD int
}

// NewMatrix allocates a zero matrix.
func NewMatrix[F tensor.Float](rows, cols int) Matrix[F] {
	ld := tensor.Stride(cols)
	return Matrix[F]{make([]F, rows*ld), rows, cols, ld}
}

// Row returns the row of position t.
func (m Matrix[F]) Row(t int) []F { return m.Data[t*m.LD : t*m.LD+m.Cols] }

// Part returns the positions [lo, hi).
func (m Matrix[F]) Part(lo, hi int) Matrix[F] {
	return Matrix[F]{m.Data[lo*m.LD : (hi-1)*m.LD+m.Cols], hi - lo, m.Cols, m.LD}
}

// Columns returns the columns [lo, hi) of every row.
func (m Matrix[F]) Columns(lo, hi int) Matrix[F] {
	return Matrix[F]{m.Data[lo:], m.Rows, hi - lo, m.LD}
}

// CopyFrom copies x, which must have the same shape.
func (m Matrix[F]) CopyFrom(x Matrix[F]) {
	if m.Rows != x.Rows || m.Cols != x.Cols {
		panic("nn: shape mismatch")
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

// Left returns m as the left factor of a product.
func (m Matrix[F]) Left() tensor.Left[F] { return tensor.Rows(m.Data, m.LD) }

// LeftT returns the transpose of m as the left factor of a product.
func (m Matrix[F]) LeftT() tensor.Left[F] { return tensor.Columns(m.Data, m.LD) }

// factor returns the factor of a product's destination.
func factor[F tensor.Float](add bool) F {
	if add {
		return 1
	}
	return 0
}
