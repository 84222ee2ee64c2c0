package nn

import "mm-abi.org/mm/core/tensor"

// Dense is a linear layer and its bias, y = x·Wᵀ + b, at its place in a pass.
type Dense[F tensor.Float] struct {
	Product[F]
	Bias *Tensor[F] // [Out]; nil: there is none
}

// NewDense gives l a place between x [N, In] and y [N, Out].
func NewDense[F tensor.Float](l *Linear[F], bias *Tensor[F], x, y, dy Matrix[F]) Dense[F] {
	return Dense[F]{NewProduct(l, x, y, dy), bias}
}

// Forward fills the rows [lo, hi) of y, or adds to them.
func (d *Dense[F]) Forward(lo, hi int, add bool) {
	d.Product.Forward(lo, hi, add)
	if d.Bias == nil {
		return
	}
	for t := lo; t < hi; t++ {
		tensor.AddScaled(d.Y.Row(t), 1, d.Bias.Data)
	}
}

// Backward takes the rows [lo, hi) of the gradient of y to the bias's, in the
// sample's vector gradients, and where want is set to dx, which has hi-lo rows
// and is replaced or added to.
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

// Take is m = x, or m += x where add is set; equal shapes.
func (m Matrix[F]) Take(x Matrix[F], add bool) {
	if !add {
		m.CopyFrom(x)
		return
	}
	if m.Rows != x.Rows || m.Cols != x.Cols {
		panic("nn: matrices differ in shape")
	}
	for t := range m.Rows {
		tensor.AddScaled(m.Row(t), 1, x.Row(t))
	}
}

// First is the product over the first rows only, of which a weight gradient can
// be made.
func (d *Dense[F]) First(rows int) *Product[F] {
	p := d.Product
	p.X, p.DY = p.X.Part(0, rows), p.DY.Part(0, rows)
	return &p
}
