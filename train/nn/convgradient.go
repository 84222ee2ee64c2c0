package nn

import (
	"mm-abi.org/mm/core/tensor"
)

// ConvGradient is the gradient of a weight over some samples, cut into panels
// of columns for the threads.
type ConvGradient[F tensor.Float] struct {
	geometry     Geometry
	weight       *Tensor[F]
	groups, deep int       // deep: channels of a window
	big, small   Matrix[F] // windows are gathered from big and multiplied by small
	samples      int
	width        int
}

func newConvGradient[F tensor.Float](g Geometry, w *Tensor[F], groups, deep int, big, small Matrix[F], samples int) *ConvGradient[F] {
	return &ConvGradient[F]{g, w, groups, deep, big, small, samples, columns * NewGradientScratch[F]().Width()}
}

// Len returns the number of panels, 0 if the weight is frozen.
func (g *ConvGradient[F]) Len() int {
	if g.weight.Grad == nil {
		return 0
	}
	return g.groups * g.panels()
}

func (g *ConvGradient[F]) panels() int { return (g.weight.Shape[1] + g.width - 1) / g.width }

// columns is the number of core/tensor panels in one panel of a gradient,
// together the number of outputs multiplied at a time. With these the gathered
// and packed data stays in the second-level cache.
const (
	columns  = 4
	together = 512
)

// Compute computes the panels [from, to) or, if add is set, adds them to the
// gradients of earlier batches of the step. Panels do not overlap.
func (g *ConvGradient[F]) Compute(s *ConvScratch[F], from, to int, add bool) {
	if s.panel == nil {
		s.panel = NewGradientScratch[F]()
	}
	for i := from; i < to; i++ {
		g.columns(s, i/g.panels(), i%g.panels()*g.width, add)
	}
}

// columns computes columns from j of the rows of a group.
func (g *ConvGradient[F]) columns(s *ConvScratch[F], group, j int, add bool) {
	in, n := g.weight.Shape[1], g.geometry.OH()*g.geometry.OW()
	rows, w := g.weight.Shape[0]/g.groups, min(g.width, in-j)
	dw := g.weight.Grad[group*rows*in+j:]
	for lo := 0; lo < g.samples*n; lo += together {
		hi := min(lo+together, g.samples*n)
		col := s.matrix(hi-lo, w)
		g.gather(col, group, lo, hi, j)
		s.panel.Resize(hi-lo, w)
		s.panel.Pack(col.Data, col.LD)
		left := g.small.Part(lo, hi).Columns(group*rows, (group+1)*rows)
		beta := F(1)
		if lo == 0 && !add {
			beta = 0
		}
		s.panel.Mul(rows, 1, left.LeftT(), beta, dw, in) // [rows, outputs]·[outputs, w]
	}
}

// gather fills col with columns of the windows of the outputs [lo, hi), counted
// over all samples.
func (g *ConvGradient[F]) gather(col Matrix[F], group, lo, hi, j int) {
	size, n := g.geometry.H*g.geometry.W, g.geometry.OH()*g.geometry.OW()
	c := channels{group * g.deep, (group + 1) * g.deep}
	for at := lo; at < hi; {
		k := at / n // sample
		end := min(hi, (k+1)*n)
		gather(g.geometry, col.Part(at-lo, end-lo), g.big.Part(k*size, (k+1)*size), c, at-k*n, end-k*n, j, j+col.Cols)
		at = end
	}
}
