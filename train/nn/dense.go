package nn

import "mm-abi.org/mm/core/tensor"

// Dense is a linear layer with bias, y = x·Wᵀ + b, with the activations of a
// pass.
type Dense[F tensor.Float] struct {
	Product[F]
	Bias *Tensor[F] // [Out]; nil: no bias
}

// NewDense creates the pass of l between x [N, In] and y [N, Out].
func NewDense[F tensor.Float](l *Linear[F], bias *Tensor[F], x, y, dy Matrix[F]) Dense[F] {
	return Dense[F]{NewProduct(l, x, y, dy), bias}
}

// Forward computes the rows [lo, hi) of y or, if add is set, adds to them.
func (d *Dense[F]) Forward(lo, hi int, add bool) {
	d.Product.Forward(lo, hi, add)
	if d.Bias == nil {
		return
	}
	for t := lo; t < hi; t++ {
		tensor.AddScaled(d.Y.Row(t), 1, d.Bias.Data)
	}
}

// Backward computes, from the rows [lo, hi) of dy, the bias gradient in the
// sample's vector gradients and, if want is set, dx, which has hi-lo rows and
// is replaced or, if add is set, added to.
func (d *Dense[F]) Backward(dx Matrix[F], spread []F, lo, hi int, want, add bool) {
	if d.Bias != nil && d.Bias.Grad != nil {
		AddRows(d.Bias.In(spread), d.DY.Part(lo, hi))
	}
	if !want {
		return
	}
	dy := d.DY.Part(lo, hi)
	d.bwd.Mul(dy.Rows, 1, dy.Left(), factor[F](add), dx.Data, dx.LD)
}

// AddRows adds all rows of m [T, C] to sum [C].
func AddRows[F tensor.Float](sum []F, m Matrix[F]) {
	for t := range m.Rows {
		tensor.AddScaled(sum, 1, m.Row(t))
	}
}

// Take sets m = x or, if add is set, m += x. The shapes must be equal.
func (m Matrix[F]) Take(x Matrix[F], add bool) {
	if !add {
		m.CopyFrom(x)
		return
	}
	if m.Rows != x.Rows || m.Cols != x.Cols {
		panic("nn: shape mismatch")
	}
	for t := range m.Rows {
		tensor.AddScaled(m.Row(t), 1, x.Row(t))
	}
}

// First returns the product over the first rows only, for a weight gradient.
func (d *Dense[F]) First(rows int) *Product[F] {
	p := d.Product
	p.X, p.DY = p.X.Part(0, rows), p.DY.Part(0, rows)
	return &p
}
