package nn

import "mm-abi.org/mm/core/tensor"

// gradient is that of a group of stacked tensors, dW = scale·dyᵀ·x: one product
// over all B·T positions, split over the threads by columns of x.
type gradient[F tensor.Float] struct {
	dw    []F // [out, in]
	in    int
	x, dy Matrix[F] // [B·T, in], [B·T, out]
	scale F
}

// gradients lists the weight gradients of p, neighbours that train as one.
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

// Gradients is the weight gradients of the matrices of a pass, cut into panels
// of columns that threads can take.
type Gradients[F tensor.Float] struct {
	all    []gradient[F]
	panels []panel
}

// panel is some columns of one weight gradient.
type panel struct{ gradient, column int }

// NewGradients is those of the products given; nil ones and those without a
// layer are passed over.
func NewGradients[F tensor.Float](products ...*Product[F]) *Gradients[F] {
	g := &Gradients[F]{}
	for _, p := range products {
		if p != nil && p.Linear != nil {
			g.all = append(g.all, p.gradients()...)
		}
	}
	width := NewGradientScratch[F]().Width()
	for i, one := range g.all {
		for j := 0; j < one.in; j += width {
			g.panels = append(g.panels, panel{i, j})
		}
	}
	return g
}

// NewGradientScratch is what one thread needs for Compute.
func NewGradientScratch[F tensor.Float]() *tensor.Panels[F] { return tensor.NewPanels[F](1, 1) }

// Len is the number of panels.
func (g *Gradients[F]) Len() int { return len(g.panels) }

// Compute makes the panels [from, to), or adds them to what earlier batches of
// the step left there. Panels do not overlap.
func (g *Gradients[F]) Compute(scratch *tensor.Panels[F], from, to int, add bool) {
	for _, p := range g.panels[from:to] {
		g.all[p.gradient].columns(scratch, p.column, add)
	}
}

// columns computes the columns of dw from j on, as many as a panel holds.
func (g *gradient[F]) columns(scratch *tensor.Panels[F], j int, add bool) {
	w := min(scratch.Width(), g.in-j)
	scratch.Resize(g.x.Rows, w)
	scratch.Pack(g.x.Data[j:], g.x.LD)
	scratch.Mul(g.dy.Cols, g.scale, g.dy.LeftT(), factor[F](add), g.dw[j:], g.in)
}
