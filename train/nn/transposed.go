package nn

import (
	"mm-abi.org/mm/core/tensor"
)

// Transposed is a transposed convolution: every pixel of a small image writes a
// window of the large one, and overlapping windows add up. The geometry is that
// of the large image: H×W is the output, OH×OW the input and C the output
// channels.
type Transposed[F tensor.Float] struct {
	Geometry
	In     int
	Weight *Tensor[F] // [In, KH·KW·C], each row ordered by row, column and channel
	Bias   *Tensor[F] // [C]; nil: no bias

	fwd, bwd *tensor.Panels[F]
}

// Window returns the number of elements that a pixel writes.
func (c *Transposed[F]) Window() int { return c.KH * c.KW * c.C }

// Pack packs the weights for the products of the next step: those that train,
// or all if everything is set.
func (c *Transposed[F]) Pack(everything bool) {
	if c.fwd == nil {
		c.fwd, c.bwd = tensor.NewPanels[F](c.In, c.Window()), tensor.NewPanels[F](c.Window(), c.In)
	}
	if everything || c.Weight.Grad != nil {
		c.fwd.Pack(c.Weight.Data, c.Window())
		c.bwd.PackTransposed(c.Weight.Data, c.Window())
	}
}

// TransposedPass is a transposed convolution with the activations of a pass
// over B samples.
type TransposedPass[F tensor.Float] struct {
	*Transposed[F]
	X, Y, DY Matrix[F] // [B·OH·OW, In], [B·H·W, C] and its gradient
}

// Forward computes the sample's rows of Y.
func (p *TransposedPass[F]) Forward(s *ConvScratch[F], sample int) {
	size, n := p.H*p.W, p.OH()*p.OW()
	x, y := p.X.Part(sample*n, (sample+1)*n), p.Y.Part(sample*size, (sample+1)*size)
	for t := range y.Rows {
		clear(y.Row(t))
		if p.Bias != nil {
			copy(y.Row(t), p.Bias.Data)
		}
	}
	col := s.matrix(rowBlock, p.Window())
	for lo := 0; lo < n; lo += rowBlock {
		hi := min(lo+rowBlock, n)
		left := x.Part(lo, hi)
		p.fwd.Mul(hi-lo, 1, left.Left(), 0, col.Data, col.LD) // [hi-lo, In]·[In, window]
		scatter(p.Geometry, y, col, channels{0, p.C}, lo, hi)
	}
}

// Backward computes, from the sample's rows of DY, the bias gradient in the
// sample's vector gradients and, if want is set, the sample's rows of dx, which
// are replaced or, if add is set, added to.
func (p *TransposedPass[F]) Backward(s *ConvScratch[F], dx Matrix[F], spread []F, sample int, want, add bool) {
	size, n := p.H*p.W, p.OH()*p.OW()
	dy := p.DY.Part(sample*size, (sample+1)*size)
	if p.Bias != nil && p.Bias.Grad != nil {
		AddRows(p.Bias.In(spread), dy)
	}
	if !want {
		return
	}
	beta := F(0)
	if add {
		beta = 1
	}
	col := s.matrix(rowBlock, p.Window())
	for lo := 0; lo < n; lo += rowBlock {
		hi := min(lo+rowBlock, n)
		gather(p.Geometry, col, dy, channels{0, p.C}, lo, hi, 0, p.Window())
		to := dx.Part(sample*n+lo, sample*n+hi)
		p.bwd.Mul(hi-lo, 1, col.Left(), beta, to.Data, to.LD) // [hi-lo, window]·[window, In]
	}
}

// Gradient returns the weight gradient, dW = xᵀ·windows of dy, over the first n
// samples.
func (p *TransposedPass[F]) Gradient(n int) *ConvGradient[F] {
	return newConvGradient(p.Geometry, p.Weight, 1, p.C, p.DY, p.X, n)
}
