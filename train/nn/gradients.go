package nn

import "mm-abi.org/mm/core/tensor"

// gradient is the gradient of a group of stacked tensors, dW = scale·dyᵀ·x: one
// product over all B·T positions, split over threads by blocks of dW.
type gradient[F tensor.Float] struct {
	dw    []F // [out, in]
	in    int
	x, dy Matrix[F] // [B·T, in], [B·T, out]
	scale F
}

// gradients returns the weight gradients of p, adjacent trained tensors as one.
func (p *Product[F]) gradients() []gradient[F] {
	var all []gradient[F]
	from := 0
	for i := 0; i < len(p.parts); {
		first, rows := p.parts[i], 0
		for ; i < len(p.parts) && (p.parts[i].Grad != nil) == (first.Grad != nil); i++ {
			rows += p.parts[i].Shape[0]
		}
		if first.Grad != nil {
			at := first.gradOffset
			all = append(all, gradient[F]{p.params.grads[at : at+rows*p.In], p.In, p.X, p.DY.Columns(from, from+rows), 1})
		}
		from += rows
	}
	for i, a := range p.lora {
		if a.a.Grad != nil {
			all = append(all, gradient[F]{a.a.Grad, p.In, p.X, p.dz[i], 1})
		}
		if a.b.Grad != nil {
			all = append(all, gradient[F]{a.b.Grad, a.rank, p.z[i], p.DY.Columns(a.from, a.from+a.out), a.scale})
		}
	}
	return all
}

// The size of a block of a weight gradient, one unit of work: as many columns
// of dy (gradRows at a time) and of x as stay in a second-level cache for
// gradDepth positions. Matrices of more than largeGradient elements have enough
// blocks and take three times the rows, since x is packed for each block.
const (
	gradRows      = 240
	gradColumns   = 256
	gradDepth     = 128
	largeGradient = 1 << 18
)

// Gradients is the weight gradients of the matrices of a pass, cut into blocks
// for the threads.
type Gradients[F tensor.Float] struct {
	all    []gradient[F]
	blocks []block
}

// block is some rows of one weight gradient, from a row and a column.
type block struct{ gradient, row, rows, column int }

// NewGradients returns the gradients of products. Nil products and those
// without a layer are skipped.
func NewGradients[F tensor.Float](products ...*Product[F]) *Gradients[F] {
	g := &Gradients[F]{}
	for _, p := range products {
		if p != nil && p.Linear != nil {
			g.all = append(g.all, p.gradients()...)
		}
	}
	for n, one := range g.all {
		rows := gradRows
		if len(one.dw) > largeGradient {
			rows *= 3
		}
		for i := 0; i < one.dy.Cols; i += rows {
			for j := 0; j < one.in; j += gradColumns {
				g.blocks = append(g.blocks, block{n, i, min(rows, one.dy.Cols-i), j})
			}
		}
	}
	return g
}

// NewGradientScratch allocates the scratch of one thread for Compute without
// BF16, see [Params.GradientScratch].
func NewGradientScratch[F tensor.Float]() *tensor.Panels[F] { return tensor.NewPanels[F](1, 1) }

// Len returns the number of blocks.
func (g *Gradients[F]) Len() int { return len(g.blocks) }

// Compute computes the blocks [from, to) or, if add is set, adds them to the
// gradients of earlier batches of the step. Blocks do not overlap.
func (g *Gradients[F]) Compute(scratch *tensor.Panels[F], from, to int, add bool) {
	for _, b := range g.blocks[from:to] {
		g.all[b.gradient].block(scratch, b.row, b.rows, b.column, add)
	}
}

// block computes the block of h rows of dw at row i and column j, some
// positions at a time, always in the same order.
func (g *gradient[F]) block(scratch *tensor.Panels[F], i, h, j int, add bool) {
	w := min(gradColumns, g.in-j)
	for t := 0; t < g.x.Rows; t += gradDepth {
		end := min(t+gradDepth, g.x.Rows)
		x, dy := g.x.Part(t, end).Columns(j, j+w), g.dy.Part(t, end).Columns(i, i+h)
		scratch.Resize(end-t, w)
		scratch.Pack(x.Data, x.LD)
		scratch.Mul(h, g.scale, dy.LeftT(), factor[F](add || t > 0), g.dw[i*g.in+j:], g.in)
	}
}
