package nn

import (
	"mm-abi.org/mm/core/tensor"
)

// Conv is a convolution with Out output channels.
type Conv[F tensor.Float] struct {
	Geometry
	Out, Groups int
	Weight      *Tensor[F] // [Out, KH·KW·C/Groups], each row ordered by row, column and channel
	Bias        *Tensor[F] // [Out]; nil: no bias

	fwd, bwd []*tensor.Panels[F] // of each group: Wᵀ and the factor of the backward pass
	turned   []F                 // scratch: W in the order of the backward pass
}

// Window returns the number of elements of a window that one sum takes.
func (c *Conv[F]) Window() int { return c.KH * c.KW * c.C / c.Groups }

// Pack packs the weights for the products of the next step: those that train,
// or all if everything is set.
func (c *Conv[F]) Pack(everything bool) {
	if !everything && c.Weight.Grad == nil {
		return
	}
	rows, cols := c.Out/c.Groups, c.Window()
	for i := range c.Groups {
		if len(c.fwd) == i {
			c.fwd, c.bwd = append(c.fwd, tensor.NewPanels[F](cols, rows)), append(c.bwd, tensor.NewPanels[F](rows, cols))
		}
		w := c.Weight.Data[i*rows*cols : (i+1)*rows*cols]
		c.fwd[i].PackTransposed(w, cols)
		if c.gathers() {
			c.packTurned(i)
		} else {
			c.bwd[i].Pack(w, cols)
		}
	}
}

// gathers reports whether the backward pass is itself a convolution: if windows
// are one pixel apart, the gradient of a pixel is a sum of the output's
// gradient over the window around it, with the kernel rotated by 180°.
// Otherwise, or if there are many more outputs than inputs, products of single
// gradients are scattered.
func (c *Conv[F]) gathers() bool {
	return c.SH == 1 && c.SW == 1 && c.Out <= 2*c.C && !c.direct()
}

// back returns the geometry of the backward pass. Padding wider than the kernel
// crops dy.
func (c *Conv[F]) back() Geometry {
	return Geometry{H: c.OH(), W: c.OW(), C: c.Out, KH: c.KH, KW: c.KW, SH: 1, SW: 1, PH: c.KH - 1 - c.PH, PW: c.KW - 1 - c.PW}
}

// packTurned packs a group's weights as the matrix [KH·KW·Out/G, C/G], from the
// last pixel of a window to the first.
func (c *Conv[F]) packTurned(group int) {
	in, out, taps := c.C/c.Groups, c.Out/c.Groups, c.KH*c.KW
	if c.turned == nil {
		c.turned = make([]F, taps*out*in)
	}
	for o := range out {
		row := c.Weight.Data[(group*out+o)*taps*in:]
		for t := range taps {
			copy(c.turned[((taps-1-t)*out+o)*in:][:in], row[t*in:])
		}
	}
	c.bwd[group].Resize(taps*out, in)
	c.bwd[group].Pack(c.turned, in)
}

// ConvScratch holds the buffers of one thread. The zero value is ready to use.
type ConvScratch[F tensor.Float] struct {
	data  []F
	panel *tensor.Panels[F]
}

// matrix returns a buffer of the given shape.
func (s *ConvScratch[F]) matrix(rows, cols int) Matrix[F] {
	ld := tensor.Stride(cols)
	if len(s.data) < rows*ld {
		s.data = make([]F, rows*ld)
	}
	return Matrix[F]{Data: s.data, Rows: rows, Cols: cols, LD: ld}
}

// rowBlock is the number of windows gathered at a time.
const rowBlock = 96

// ConvPass is a convolution with the activations of a pass over B samples.
type ConvPass[F tensor.Float] struct {
	*Conv[F]
	X, Y, DY Matrix[F] // [B·H·W, C], [B·OH·OW, Out] and its gradient
}

// direct reports whether windows are single pixels, so that nothing is
// gathered.
func (c *Conv[F]) direct() bool {
	return c.KH == 1 && c.KW == 1 && c.SH == 1 && c.SW == 1 && c.PH == 0 && c.PW == 0
}

// group returns the input and output channels of a group.
func (c *Conv[F]) group(i int) (in, out channels) {
	return channels{i * c.C / c.Groups, (i + 1) * c.C / c.Groups}, channels{i * c.Out / c.Groups, (i + 1) * c.Out / c.Groups}
}

// Forward computes the sample's rows of Y.
func (p *ConvPass[F]) Forward(s *ConvScratch[F], sample int) {
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

// Backward computes, from the sample's rows of DY, the bias gradient in the
// sample's vector gradients and, if want is set, the sample's rows of dx, which
// are replaced or, if add is set, added to.
func (p *ConvPass[F]) Backward(s *ConvScratch[F], dx Matrix[F], spread []F, sample int, want, add bool) {
	n := p.OH() * p.OW()
	dy := p.DY.Part(sample*n, (sample+1)*n)
	if p.Bias != nil && p.Bias.Grad != nil {
		AddRows(p.Bias.In(spread), dy)
	}
	if !want {
		return
	}
	dx = dx.Part(sample*p.H*p.W, (sample+1)*p.H*p.W)
	if p.gathers() {
		p.gatherBack(s, dx, dy, add)
		return
	}
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

// gatherBack computes dx as a convolution of dy.
func (p *ConvPass[F]) gatherBack(s *ConvScratch[F], dx, dy Matrix[F], add bool) {
	g, beta := p.back(), F(0)
	if add {
		beta = 1
	}
	window := p.KH * p.KW * p.Out / p.Groups
	col := s.matrix(rowBlock, window)
	for lo := 0; lo < dx.Rows; lo += rowBlock {
		hi := min(lo+rowBlock, dx.Rows)
		for i := range p.Groups {
			in, out := p.group(i)
			gather(g, col, dy, out, lo, hi, 0, window)
			to := dx.Part(lo, hi).Columns(in.lo, in.hi)
			p.bwd[i].Mul(hi-lo, 1, col.Left(), beta, to.Data, to.LD) // [hi-lo, window]·[window, C/G]
		}
	}
}

// Gradient returns the weight gradient, dW = dyᵀ·windows, over the first n
// samples.
func (p *ConvPass[F]) Gradient(n int) *ConvGradient[F] {
	return newConvGradient(p.Geometry, p.Weight, p.Groups, p.C/p.Groups, p.X, p.DY, n)
}
