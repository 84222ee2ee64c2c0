package llm

import "mm-abi.org/mm/core/tensor"

// linear is one matrix product, y = x·Wᵀ, with W the stacked rows of one or
// more tensors that share their input and lie beside each other in memory.
type linear[F tensor.Float] struct {
	parts   []*Tensor[F]
	in, out int
	w       []F // [out, in]

	fwd, bwd *tensor.Panels[F] // Wᵀ and W, packed
	lora     []*adapter[F]     // those of its parts that have one
}

// linear stacks the rows of parts; nil when there is no tensor at all.
func (m *Model[F]) linear(parts ...*Tensor[F]) *linear[F] {
	if parts[0] == nil {
		return nil
	}
	l := &linear[F]{parts: parts, in: parts[0].Shape[1]}
	for _, t := range parts {
		l.out += t.Shape[0]
	}
	start := parts[0].offset
	l.w = m.data[start : start+l.out*l.in]
	return l
}

// trains reports whether any stacked tensor has a gradient.
func (l *linear[F]) trains() bool {
	for _, t := range l.parts {
		if t.Grad != nil {
			return true
		}
	}
	return false
}

// pack lays the weights out for the products of the next step: what trains,
// or everything.
func (l *linear[F]) pack(everything bool) {
	if l.fwd == nil {
		l.fwd, l.bwd = tensor.NewPanels[F](l.in, l.out), tensor.NewPanels[F](l.out, l.in)
	}
	if everything || l.trains() {
		l.fwd.PackTransposed(l.w, l.in)
		l.bwd.Pack(l.w, l.in)
	}
	for _, a := range l.lora {
		a.pack()
	}
}

// product is a linear layer at its place in a pass: its input and output for
// all positions of the batch, [B·T, in] and [B·T, out], and the gradient of the
// output, which the weight gradient is made of when all sequences are through.
type product[F tensor.Float] struct {
	*linear[F]
	x, y, dy matrix[F]
	z, dz    []matrix[F] // between the two matrices of each adapter, [B·T, rank]
}

func newProduct[F tensor.Float](l *linear[F], x, y, dy matrix[F]) product[F] {
	p := product[F]{linear: l, x: x, y: y, dy: dy}
	for _, a := range l.lora {
		p.z = append(p.z, newMatrix[F](x.rows, a.rank))
		p.dz = append(p.dz, newMatrix[F](x.rows, a.rank))
	}
	return p
}

// forward computes y = x·Wᵀ, [T, in]·[in, out], for the positions [lo, hi), or
// adds it to y.
func (p *product[F]) forward(lo, hi int, add bool) {
	x, y := p.x.part(lo, hi), p.y.part(lo, hi)
	p.fwd.Mul(x.rows, 1, x.left(), factor[F](add), y.data, y.ld)
	for i, a := range p.lora {
		z, part := p.z[i].part(lo, hi), y.columns(a.from, a.from+a.out)
		a.fwdA.Mul(x.rows, 1, x.left(), 0, z.data, z.ld)
		a.fwdB.Mul(x.rows, a.scale, z.left(), 1, part.data, part.ld)
	}
}

// backward computes dx = dy·W, [T, out]·[out, in], for the positions [lo, hi);
// dx has hi-lo rows. With input unset nobody wants dx and only what the weight
// gradients of the adapters need is computed.
func (p *product[F]) backward(dx matrix[F], lo, hi int, input bool) {
	dy := p.dy.part(lo, hi)
	if input {
		p.bwd.Mul(dy.rows, 1, dy.left(), 0, dx.data, dx.ld)
	}
	for i, a := range p.lora {
		dz, part := p.dz[i].part(lo, hi), dy.columns(a.from, a.from+a.out)
		a.bwdB.Mul(dy.rows, a.scale, part.left(), 0, dz.data, dz.ld)
		if input {
			a.bwdA.Mul(dy.rows, 1, dz.left(), 1, dx.data, dx.ld)
		}
	}
}

// weightGrad is the gradient of a group of stacked tensors, dW = scale·dyᵀ·x:
// one product over all B·T positions, split over the threads by columns of x.
type weightGrad[F tensor.Float] struct {
	dw    []F // [out, in]
	in    int
	x, dy matrix[F] // [B·T, in], [B·T, out]
	scale F
}

// grads lists the weight gradients of p, neighbours that train as one.
func (p *product[F]) grads(m *Model[F]) []weightGrad[F] {
	var all []weightGrad[F]
	from := 0
	for i := 0; i < len(p.parts); {
		first, rows := p.parts[i], 0
		for ; i < len(p.parts) && (p.parts[i].Grad != nil) == (first.Grad != nil); i++ {
			rows += p.parts[i].Shape[0]
		}
		if first.Grad != nil {
			at := first.gradOffset
			all = append(all, weightGrad[F]{m.grads[at : at+rows*p.in], p.in, p.x, p.dy.columns(from, from+rows), 1})
		}
		from += rows
	}
	for i, a := range p.lora {
		if a.a.Grad != nil {
			all = append(all, weightGrad[F]{a.a.Grad, p.in, p.x, p.dz[i], 1})
		}
		if a.b.Grad != nil {
			all = append(all, weightGrad[F]{a.b.Grad, a.rank, p.z[i], p.dy.columns(a.from, a.from+a.out), a.scale})
		}
	}
	return all
}

// panel computes the columns of dw from j on, as many as a panel holds, or adds
// them to what earlier batches of the step left there.
func (g *weightGrad[F]) panel(scratch *tensor.Panels[F], j int, add bool) {
	w := min(scratch.Width(), g.in-j)
	scratch.Resize(g.x.rows, w)
	scratch.Pack(g.x.data[j:], g.x.ld)
	scratch.Mul(g.dy.cols, g.scale, g.dy.leftT(), factor[F](add), g.dw[j:], g.in)
}

// factor is what a product multiplies its destination by.
func factor[F tensor.Float](add bool) F {
	if add {
		return 1
	}
	return 0
}
