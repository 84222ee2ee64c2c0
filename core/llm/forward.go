package llm

import "mm-abi.org/mm/core/tensor"

// forward takes the sequence at the positions [lo, hi) from tokens to the
// normed output of the last block, which the head turns into logits. The residual stream x has 2L+1 stations: x[2l] enters block l, x[2l+1] lies
// between its halves, x[2L] leaves the last block.
func (p *Pass[F]) forward(w *worker[F], lo, hi int) {
	m := p.model
	p.embed(lo, hi) // x[0] [T, C]
	for l := range p.layers {
		y, b := &p.layers[l], &m.blocks[l]
		in, mid, out := p.x[2*l], p.x[2*l+1], p.x[2*l+2]

		normForward(y.norm1, in, b.norm1, y.r1, m.Config, lo, hi) // [T, C]
		if b.mix != nil {
			y.mix.forward(p, w, lo, hi) // [T, C] → [T, H·D]
		} else {
			y.attn.forward(p, w, b, lo, hi) // [T, C] → [T, H·D]
		}
		mid.part(lo, hi).copyFrom(in.part(lo, hi))
		y.out.forward(lo, hi, true) // x[2l+1] = x[2l] + mixed·Woᵀ [T, C]

		normForward(y.norm2, mid, b.norm2, y.r2, m.Config, lo, hi) // [T, C]
		out.part(lo, hi).copyFrom(mid.part(lo, hi))
		y.ffn.forward(lo, hi) // x[2l+2] = x[2l+1] + ffn [T, C]
	}
	normForward(p.final, p.x[len(p.x)-1], m.norm, p.finalR, m.Config, lo, hi) // [T, C]
}

// predict is the head, the loss and the head's backward pass: it returns the
// sum of nats over the positions with a target, and with dn set leaves there
// the gradient of the normed output [T, C]. The logits [T, V] turn into their
// gradient in place.
func (p *Pass[F]) predict(dn matrix[F], lo, hi int) (sum float64) {
	for first := lo; lo < hi; lo += rowBlock {
		end := min(lo+rowBlock, hi)
		p.head.forward(lo, end, false) // [T, C] → [T, V]
		for t := lo; t < end; t++ {
			logits, target := p.head.y.row(t), int(p.batch.Targets[t])
			switch {
			case target < 0:
				clear(logits)
			case dn.rows > 0:
				sum += float64(tensor.CrossEntropy(logits, target, p.scale))
			default:
				sum += float64(tensor.NegLogLikelihood(logits, target))
			}
		}
		if dn.rows > 0 {
			p.head.backward(dn.part(lo-first, end-first), lo, end, true) // [T, V] → [T, C]
		}
	}
	return sum
}

// backward takes w.dn, the gradient of the normed output of the last block,
// down to the lowest half block with anything to train. dx[i] is the
// gradient at station i of the residual stream; each half adds its own part to
// what passed it by:
//
//	y = x + f(norm(x))  ⇒  dx = dy + norm'(f'(dy))
func (p *Pass[F]) backward(w *worker[F], spread []F, lo, hi int) {
	m := p.model
	last := len(p.x) - 1
	p.dx[last].part(lo, hi).zero()
	normBackward(p.dx[last], w.dn, p.x[last], m.norm, p.finalR, spread, lo, hi)
	for l := len(p.layers) - 1; l >= 0; l-- {
		y, b := &p.layers[l], &m.blocks[l]
		if 2*l+1 < p.lowest {
			return
		}
		dmid, dout := p.dx[2*l+1], p.dx[2*l+2]
		below := p.below(2*l+1, b.norm2)
		y.ffn.backward(w.dn, w.dh, lo, hi, below) // [T, C] → [T, C]
		if !below {
			return
		}
		dmid.part(lo, hi).copyFrom(dout.part(lo, hi))
		normBackward(dmid, w.dn, p.x[2*l+1], b.norm2, y.r2, spread, lo, hi)

		if 2*l < p.lowest {
			return
		}
		din := p.dx[2*l]
		below = p.below(2*l, b.norm1)
		y.out.backward(w.dm, lo, hi, true) // [T, C] → [T, H·D]
		if b.mix != nil {
			y.mix.backward(p, w, spread, lo, hi) // [T, H·D] → [T, C]
		} else {
			y.attn.backward(p, w, b, spread, lo, hi, below) // [T, H·D] → [T, C]
		}
		if !below {
			return
		}
		din.part(lo, hi).copyFrom(dmid.part(lo, hi))
		normBackward(din, w.dn, p.x[2*l], b.norm1, y.r1, spread, lo, hi)
	}
	if p.model.embedNorm != nil {
		p.embedNormBackward(w, spread, lo, hi)
	}
}

// below reports whether the input gradient of a half block is wanted: by what
// lies under it, or by the gain of its norm.
func (p *Pass[F]) below(half int, norm *Tensor[F]) bool {
	return half > p.lowest || norm.Grad != nil
}

// normForward is RMSNorm, y = x·gain/rms(x) [T, C], keeping r = 1/rms.
func normForward[F tensor.Float](y, x matrix[F], gain *Tensor[F], r []F, c Config, lo, hi int) {
	for t := lo; t < hi; t++ {
		r[t] = tensor.NormForward(y.row(t), x.row(t), gain.Data, F(c.NormEps))
	}
}

// normBackward adds the input gradient of normForward to dx, and the gain's to
// the sequence's spread gradients; dy has the rows of this sequence only.
func normBackward[F tensor.Float](dx, dy, x matrix[F], gain *Tensor[F], r, spread []F, lo, hi int) {
	dgain := spread[gain.at : gain.at+len(gain.Data)]
	for t := lo; t < hi; t++ {
		tensor.NormBackward(dx.row(t), dgain, dy.row(t-lo), x.row(t), gain.Data, r[t])
	}
}
