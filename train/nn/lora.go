package nn

import (
	"math"

	"mm-abi.org/mm/core/tensor"
)

// adapter is the pair of low-rank matrices of one tensor of a linear layer
// (LoRA: Hu et al., arXiv 2106.09685).
type adapter[F tensor.Float] struct {
	a, b      *Tensor[F] // [rank, in], [out, rank]
	base      *Tensor[F]
	rank, out int
	from      int // first column of the tensor in the layer's output
	scale     F

	fwdA, bwdA, fwdB, bwdB *tensor.Panels[F]
}

func (a *adapter[F]) pack(p *Params[F]) {
	in := a.a.Shape[1]
	if a.fwdA == nil || a.fwdA.BF16() != p.BF16 {
		a.fwdA, a.bwdA = p.panels(in, a.rank), p.panels(a.rank, in)
		a.fwdB, a.bwdB = p.panels(a.rank, a.out), p.panels(a.out, a.rank)
	}
	a.fwdA.PackTransposed(a.a.Data, in)
	a.bwdA.Pack(a.a.Data, in)
	a.fwdB.PackTransposed(a.b.Data, a.rank)
	a.bwdB.Pack(a.b.Data, a.rank)
}

// Adapt adds matrices A [rank, In] and B [out, rank] to every stacked tensor
// selected by match, which then acts as W + scale·B·A. A is drawn with
// deviation 1/√In, B is zero. Their names are the tensor's with ".lora_a" and
// ".lora_b" appended; they are listed after the network's own tensors. The
// caller must call Freeze next.
func (l *Linear[F]) Adapt(match func(*Tensor[F]) bool, rank int, scale float64, r *Random) {
	from := 0
	for _, t := range l.parts {
		if match(t) {
			out := t.Shape[0]
			a := &Tensor[F]{Name: t.Name + ".lora_a", Shape: []int{rank, l.In}, Layer: t.Layer, Data: make([]F, rank*l.In)}
			b := &Tensor[F]{Name: t.Name + ".lora_b", Shape: []int{out, rank}, Layer: t.Layer, Data: make([]F, out*rank)}
			FillNormal(a.Data, r, 1/math.Sqrt(float64(l.In)))
			l.params.adapters = append(l.params.adapters, a, b)
			l.params.byName[a.Name], l.params.byName[b.Name] = a, b
			l.lora = append(l.lora, &adapter[F]{a: a, b: b, base: t, rank: rank, out: out, from: from, scale: F(scale)})
		}
		from += t.Shape[0]
	}
}

// Adapters lists the LoRA matrices.
func (p *Params[F]) Adapters() []*Tensor[F] { return p.adapters }

// Merge adds every adapter of l to its tensor, W += scale·B·A, and removes it.
// The caller must call Freeze next.
func (l *Linear[F]) Merge() {
	var mul tensor.Multiplier[F]
	for _, a := range l.lora {
		mul.Do(tensor.Product[F]{M: a.out, N: l.In, K: a.rank, Alpha: a.scale, Beta: 1,
			A: tensor.Rows(a.b.Data, a.rank), B: a.a.Data, LDB: l.In, C: a.base.Data, LDC: l.In})
		l.params.drop(a.a, a.b)
	}
	l.lora = nil
}

// drop removes two adapter matrices.
func (p *Params[F]) drop(remove ...*Tensor[F]) {
	kept := p.adapters[:0]
	for _, t := range p.adapters {
		if t == remove[0] || t == remove[1] {
			delete(p.byName, t.Name)
		} else {
			kept = append(kept, t)
		}
	}
	p.adapters = kept
}
