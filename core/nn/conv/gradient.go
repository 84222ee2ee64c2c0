package conv

import (
	"mm-abi.org/mm/core/nn"
	"mm-abi.org/mm/core/tensor"
)

// Gradient is that of a weight over some samples, cut into panels of columns
// that threads can take.
type Gradient[F tensor.Float] struct {
	geometry     Geometry
	weight       *nn.Tensor[F]
	groups, deep int          // deep is the channels of a window
	big, small   nn.Matrix[F] // windows are gathered of the one and multiplied by the other
	samples      int
	width        int
}

func newGradient[F tensor.Float](g Geometry, w *nn.Tensor[F], groups, deep int, big, small nn.Matrix[F], samples int) *Gradient[F] {
	return &Gradient[F]{g, w, groups, deep, big, small, samples, nn.NewGradientScratch[F]().Width()}
}

// Len is the number of panels, none where the weight does not train.
func (g *Gradient[F]) Len() int {
	if g.weight.Grad == nil {
		return 0
	}
	return g.groups * g.panels()
}

func (g *Gradient[F]) panels() int { return (g.weight.Shape[1] + g.width - 1) / g.width }

// together is how many outputs are multiplied at a time, of as many samples as
// they are of: few small pictures alone are no work for a product.
const together = 512

// Compute makes the panels [from, to), or adds them to what earlier batches of
// the step left there. Panels do not overlap.
func (g *Gradient[F]) Compute(s *Scratch[F], from, to int, add bool) {
	if s.panel == nil {
		s.panel = nn.NewGradientScratch[F]()
	}
	for i := from; i < to; i++ {
		g.columns(s, i/g.panels(), i%g.panels()*g.width, add)
	}
}

// columns computes the columns from j on of the rows of a group.
func (g *Gradient[F]) columns(s *Scratch[F], group, j int, add bool) {
	in, size := g.weight.Shape[1], g.geometry.H*g.geometry.W
	rows, n := g.weight.Shape[0]/g.groups, g.geometry.OH()*g.geometry.OW()
	w := min(g.width, in-j)
	dw := g.weight.Grad[group*rows*in+j:]
	from := channels{group * g.deep, (group + 1) * g.deep}
	batch := max(1, together/n)
	for first := 0; first < g.samples; first += batch {
		last := min(first+batch, g.samples)
		col := s.matrix((last-first)*n, w)
		for k := first; k < last; k++ {
			gather(g.geometry, col.Part((k-first)*n, (k-first+1)*n), g.big.Part(k*size, (k+1)*size), from, 0, n, j, j+w)
		}
		s.panel.Resize(col.Rows, w)
		s.panel.Pack(col.Data, col.LD)
		left := g.small.Part(first*n, last*n).Columns(group*rows, (group+1)*rows)
		beta := F(1)
		if first == 0 && !add {
			beta = 0
		}
		s.panel.Mul(rows, 1, left.LeftT(), beta, dw, in) // [rows, outputs]·[outputs, w]
	}
}
