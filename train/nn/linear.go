package nn

import (
	"sync"

	"mm-abi.org/mm/core/tensor"
)

// Linear is one matrix product, y = x·Wᵀ. W stacks the rows of one or more
// tensors that have the same input and are adjacent in memory.
type Linear[F tensor.Float] struct {
	In, Out int

	params *Params[F]
	parts  []*Tensor[F]
	w      []F // [Out, In]

	fwd, bwd *tensor.Panels[F] // Wᵀ and W, packed
	lora     []*adapter[F]     // adapters of its parts, if any
	scratch  *sync.Pool        // of stored parts
}

// Linear stacks the rows of the named tensors. It returns nil if one is
// missing.
func (p *Params[F]) Linear(names ...string) *Linear[F] {
	l := &Linear[F]{params: p}
	for _, name := range names {
		t := p.Tensor(name)
		if t == nil {
			return nil
		}
		l.parts = append(l.parts, t)
		l.Out += t.Shape[0]
	}
	l.In = l.parts[0].Shape[1]
	if l.stored() {
		l.scratch = p.storedPool(l.In)
		return l
	}
	start := l.parts[0].offset
	l.w = p.data[start : start+l.Out*l.In]
	return l
}

// trains reports whether any stacked tensor has a gradient.
func (l *Linear[F]) trains() bool {
	for _, t := range l.parts {
		if t.Grad != nil {
			return true
		}
	}
	return false
}

// Pack packs the weights for the products of the next step: those that train,
// or all if everything is set. The caller must call it after weights change and
// before the next pass.
func (l *Linear[F]) Pack(everything bool) {
	if l.stored() {
		for _, a := range l.lora {
			a.pack(l.params)
		}
		return
	}
	if l.fwd == nil || l.fwd.BF16() != l.params.BF16 {
		l.fwd, l.bwd = l.params.panels(l.In, l.Out), l.params.panels(l.Out, l.In)
		everything = true
	}
	if everything || l.trains() {
		l.fwd.PackTransposed(l.w, l.In)
		l.bwd.Pack(l.w, l.In)
	}
	for _, a := range l.lora {
		a.pack(l.params)
	}
}

// Product is a linear layer with the activations of a pass: input and output
// for all positions of the batch, [B·T, In] and [B·T, Out], and the gradient of
// the output, from which the weight gradient is computed after all sequences.
type Product[F tensor.Float] struct {
	*Linear[F]
	X, Y, DY Matrix[F]

	z, dz []Matrix[F] // between the two matrices of each adapter, [B·T, rank]
}

// NewProduct creates the pass of l. Without a backward pass dy may be empty.
func NewProduct[F tensor.Float](l *Linear[F], x, y, dy Matrix[F]) Product[F] {
	p := Product[F]{Linear: l, X: x, Y: y, DY: dy}
	for _, a := range l.lora {
		p.z = append(p.z, NewMatrix[F](x.Rows, a.rank))
		p.dz = append(p.dz, NewMatrix[F](x.Rows, a.rank))
	}
	return p
}

// Forward computes y = x·Wᵀ, [T, In]·[In, Out], for the positions [lo, hi) or,
// if add is set, adds it to y.
func (p *Product[F]) Forward(lo, hi int, add bool) {
	x, y := p.X.Part(lo, hi), p.Y.Part(lo, hi)
	if p.stored() {
		p.forwardStored(x, y, add)
	} else {
		p.fwd.Mul(x.Rows, 1, x.Left(), factor[F](add), y.Data, y.LD)
	}
	for i, a := range p.lora {
		z, part := p.z[i].Part(lo, hi), y.Columns(a.from, a.from+a.out)
		a.fwdA.Mul(x.Rows, 1, x.Left(), 0, z.Data, z.LD)
		a.fwdB.Mul(x.Rows, a.scale, z.Left(), 1, part.Data, part.LD)
	}
}

// Backward computes dx = dy·W, [T, Out]·[Out, In], for the positions [lo, hi);
// dx has hi-lo rows. If input is unset, it computes only what the weight
// gradients of the adapters need.
func (p *Product[F]) Backward(dx Matrix[F], lo, hi int, input bool) {
	dy := p.DY.Part(lo, hi)
	switch {
	case input && p.stored():
		p.backwardStored(dy, dx)
	case input:
		p.bwd.Mul(dy.Rows, 1, dy.Left(), 0, dx.Data, dx.LD)
	}
	for i, a := range p.lora {
		dz, part := p.dz[i].Part(lo, hi), dy.Columns(a.from, a.from+a.out)
		a.bwdB.Mul(dy.Rows, a.scale, part.Left(), 0, dz.Data, dz.LD)
		if input {
			a.bwdA.Mul(dy.Rows, 1, dz.Left(), 1, dx.Data, dx.LD)
		}
	}
}
