package conv

import (
	"mm-abi.org/mm/core/nn"
	"mm-abi.org/mm/core/tensor"
)

// Conv is a convolution: of every window of the picture, Out sums.
type Conv[F tensor.Float] struct {
	Geometry
	Out, Groups int
	Weight      *nn.Tensor[F] // [Out, KH·KW·C/Groups], each row ordered by row, column and channel
	Bias        *nn.Tensor[F] // [Out]; nil: there is none

	fwd, bwd []*tensor.Panels[F] // of each group, Wᵀ and W
}

// Window is the number of elements of a window that one sum takes.
func (c *Conv[F]) Window() int { return c.KH * c.KW * c.C / c.Groups }

// Pack lays the weights out for the products of the next step: what trains, or
// everything.
func (c *Conv[F]) Pack(everything bool) {
	c.fwd, c.bwd = pack(c.fwd, c.bwd, c.Weight, c.Groups, everything)
}

// pack lays each of the groups of rows of w out.
func pack[F tensor.Float](fwd, bwd []*tensor.Panels[F], w *nn.Tensor[F], groups int, everything bool) (_, _ []*tensor.Panels[F]) {
	rows, cols := w.Shape[0]/groups, w.Shape[1]
	for len(fwd) < groups {
		fwd, bwd = append(fwd, tensor.NewPanels[F](cols, rows)), append(bwd, tensor.NewPanels[F](rows, cols))
	}
	if everything || w.Grad != nil {
		for i := range groups {
			part := w.Data[i*rows*cols : (i+1)*rows*cols]
			fwd[i].PackTransposed(part, cols)
			bwd[i].Pack(part, cols)
		}
	}
	return fwd, bwd
}

// Scratch is what one thread needs. The zero value is ready.
type Scratch[F tensor.Float] struct {
	data  []F
	panel *tensor.Panels[F]
}

// matrix is scratch of the given shape.
func (s *Scratch[F]) matrix(rows, cols int) nn.Matrix[F] {
	ld := tensor.Stride(cols)
	if len(s.data) < rows*ld {
		s.data = make([]F, rows*ld)
	}
	return nn.Matrix[F]{Data: s.data, Rows: rows, Cols: cols, LD: ld}
}

// rowBlock is how many windows are gathered at a time.
const rowBlock = 96

// Pass is a convolution at its place in a pass over B samples.
type Pass[F tensor.Float] struct {
	*Conv[F]
	X, Y, DY nn.Matrix[F] // [B·H·W, C], [B·OH·OW, Out] and its gradient
}

// direct reports whether windows are the pixels themselves.
func (c *Conv[F]) direct() bool {
	return c.KH == 1 && c.KW == 1 && c.SH == 1 && c.SW == 1 && c.PH == 0 && c.PW == 0
}

// group is the channels that the sums of a group take and the sums themselves.
func (c *Conv[F]) group(i int) (in, out channels) {
	return channels{i * c.C / c.Groups, (i + 1) * c.C / c.Groups}, channels{i * c.Out / c.Groups, (i + 1) * c.Out / c.Groups}
}

// Forward fills the sample's rows of Y.
func (p *Pass[F]) Forward(s *Scratch[F], sample int) {
	size, n := p.H*p.W, p.OH()*p.OW()
	x, y := p.X.Part(sample*size, (sample+1)*size), p.Y.Part(sample*n, (sample+1)*n)
	col := s.matrix(rowBlock, p.Window())
	for lo := 0; lo < n; lo += rowBlock {
		hi := min(lo+rowBlock, n)
		for i := range p.Groups {
			in, out := p.group(i)
			left := x.Columns(in.lo, in.hi)
			if p.direct() {
				left = left.Part(lo, hi)
			} else {
				gather(p.Geometry, col, x, in, lo, hi, 0, p.Window())
				left = col
			}
			to := y.Part(lo, hi).Columns(out.lo, out.hi)
			p.fwd[i].Mul(hi-lo, 1, left.Left(), 0, to.Data, to.LD) // [hi-lo, window]·[window, Out/G]
		}
		if p.Bias != nil {
			for t := lo; t < hi; t++ {
				tensor.AddScaled(y.Row(t), 1, p.Bias.Data)
			}
		}
	}
}

// Backward takes the sample's rows of DY to the bias's gradient, in the sample's
// vector gradients, and where want is set to its rows of dx, which are replaced
// or added to.
func (p *Pass[F]) Backward(s *Scratch[F], dx nn.Matrix[F], spread []F, sample int, want, add bool) {
	n := p.OH() * p.OW()
	dy := p.DY.Part(sample*n, (sample+1)*n)
	if p.Bias != nil && p.Bias.Grad != nil {
		nn.AddRows(p.Bias.In(spread), dy)
	}
	if !want {
		return
	}
	dx = dx.Part(sample*p.H*p.W, (sample+1)*p.H*p.W)
	if !add {
		dx.Zero()
	}
	col := s.matrix(rowBlock, p.Window())
	for lo := 0; lo < n; lo += rowBlock {
		hi := min(lo+rowBlock, n)
		for i := range p.Groups {
			in, out := p.group(i)
			from := dy.Part(lo, hi).Columns(out.lo, out.hi)
			if p.direct() {
				to := dx.Part(lo, hi).Columns(in.lo, in.hi)
				p.bwd[i].Mul(hi-lo, 1, from.Left(), 1, to.Data, to.LD)
				continue
			}
			p.bwd[i].Mul(hi-lo, 1, from.Left(), 0, col.Data, col.LD) // [hi-lo, Out/G]·[Out/G, window]
			scatter(p.Geometry, dx, col, in, lo, hi)
		}
	}
}

// Gradient is the weight gradient, dW = dyᵀ·windows, over the first n samples.
func (p *Pass[F]) Gradient(n int) *Gradient[F] {
	return newGradient(p.Geometry, p.Weight, p.Groups, p.C/p.Groups, p.X, p.DY, n)
}
