package nn

import (
	"mm-abi.org/mm/core/tensor"
)

// Depthwise is a convolution with a separate kernel for each channel.
type Depthwise[F tensor.Float] struct {
	Geometry
	Weight *Tensor[F] // [KH·KW, C], applied element by element
	Bias   *Tensor[F] // [C]; nil: no bias
}

// DepthwisePass is a depthwise convolution with the activations of a pass over
// B samples.
type DepthwisePass[F tensor.Float] struct {
	*Depthwise[F]
	X, Y, DY Matrix[F] // [B·H·W, C], [B·OH·OW, C] and its gradient
}

// Forward computes the sample's rows of Y.
func (p *DepthwisePass[F]) Forward(s *ConvScratch[F], sample int) {
	size, n := p.H*p.W, p.OH()*p.OW()
	x, y := p.X.Part(sample*size, (sample+1)*size), p.Y.Part(sample*n, (sample+1)*n)
	row := s.matrix(1, p.C).Row(0)
	for o := range n {
		to := y.Row(o)
		clear(to)
		if p.Bias != nil {
			copy(to, p.Bias.Data)
		}
		p.taps(o, func(tap, pixel int) {
			Times(row, x.Row(pixel), p.Weight.Data[tap*p.C:][:p.C])
			tensor.AddScaled(to, 1, row)
		})
	}
}

// taps visits the elements of output o's window that lie in the image.
func (p *DepthwisePass[F]) taps(o int, visit func(tap, pixel int)) {
	w := p.windows(o)
	for ky := range p.KH {
		pixel, ok := w.row(ky)
		for k := w.from; ok && k < w.to; k++ {
			visit(ky*p.KW+k, pixel+k-w.from)
		}
	}
}

// Backward computes, from the sample's rows of DY, the gradients of weight and
// bias in the sample's vector gradients and, if want is set, the sample's rows
// of dx, which are replaced or, if add is set, added to.
func (p *DepthwisePass[F]) Backward(s *ConvScratch[F], dx Matrix[F], spread []F, sample int, want, add bool) {
	size, n := p.H*p.W, p.OH()*p.OW()
	x, dy := p.X.Part(sample*size, (sample+1)*size), p.DY.Part(sample*n, (sample+1)*n)
	if p.Bias != nil && p.Bias.Grad != nil {
		AddRows(p.Bias.In(spread), dy)
	}
	if want {
		dx = dx.Part(sample*size, (sample+1)*size)
		if !add {
			dx.Zero()
		}
	}
	row, trains := s.matrix(1, p.C).Row(0), p.Weight.Grad != nil
	for o := range n {
		d := dy.Row(o)
		p.taps(o, func(tap, pixel int) {
			at := tap * p.C
			if trains {
				Times(row, d, x.Row(pixel))
				tensor.AddScaled(p.Weight.In(spread)[at:at+p.C], 1, row)
			}
			if want {
				Times(row, d, p.Weight.Data[at:at+p.C])
				tensor.AddScaled(dx.Row(pixel), 1, row)
			}
		})
	}
}
