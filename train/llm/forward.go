package llm

import (
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// forward takes the sequence at the positions [lo, hi) from tokens to the
// normed output of the last block, which the head turns into logits. The
// residual stream x has 2L+1 stations: x[2l] enters block l, x[2l+1] lies between
// its halves, x[2L] leaves the last block. What a half block makes is written to
// the station behind it; the norm that reads it next adds what passed by.
func (p *Pass[F]) forward(w *worker[F], lo, hi int) {
	m := p.model
	p.embed(lo, hi) // x[0] [T, C]
	for l := range p.layers {
		y, b := &p.layers[l], &m.blocks[l]
		in, mid := p.x[2*l], p.x[2*l+1]

		if l == 0 {
			b.norm1.Forward(y.norm1, in, y.r1, lo, hi) // [T, C]
		} else {
			b.norm1.ForwardAdd(y.norm1, in, p.x[2*l-1], y.r1, lo, hi) // x[2l] = x[2l-1] + ffn [T, C]
		}
		if b.mix != nil {
			y.mix.forward(p, w, lo, hi) // [T, C] → [T, H·D]
		} else {
			y.attn.Forward(&w.heads, p.sequence(lo, hi)) // [T, C] → [T, H·D]
		}
		y.out.Forward(lo, hi, false) // mixed·Woᵀ [T, C]

		b.norm2.ForwardAdd(y.norm2, mid, in, y.r2, lo, hi) // x[2l+1] = x[2l] + mixed·Woᵀ [T, C]
		y.ffn.Fill(lo, hi)                                 // [T, C]
	}
	last := len(p.x) - 1
	m.norm.ForwardAdd(p.final, p.x[last], p.x[last-1], p.finalR, lo, hi) // [T, C]
}

// predict is the head, the loss and the head's backward pass: it returns the
// sum of nats over the positions with a target, and with dn set leaves there
// the gradient of the normed output [T, C]. The logits [T, V] turn into their
// gradient in place.
func (p *Pass[F]) predict(dn nn.Matrix[F], lo, hi int) (sum float64) {
	for first := lo; lo < hi; lo += nn.RowBlock {
		end := min(lo+nn.RowBlock, hi)
		p.head.Forward(lo, end, false) // [T, C] → [T, V]
		for t := lo; t < end; t++ {
			logits, target := p.head.Y.Row(t), int(p.batch.Targets[t])
			if p.batch.Best != nil && target >= 0 {
				p.batch.Best[t] = likeliest(logits)
			}
			switch {
			case target < 0:
				clear(logits)
			case dn.Rows > 0:
				sum += float64(tensor.CrossEntropy(logits, target, p.scale))
			default:
				sum += float64(tensor.NegLogLikelihood(logits, target))
			}
		}
		if dn.Rows > 0 {
			p.head.Backward(dn.Part(lo-first, end-first), lo, end, true) // [T, V] → [T, C]
		}
	}
	return sum
}

// likeliest is the token of the highest logit, the first of equals.
func likeliest[F tensor.Float](logits []F) int32 {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return int32(best)
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
	p.dx[last].Part(lo, hi).Zero()
	m.norm.Backward(p.dx[last], w.dn, p.x[last], p.finalR, spread, lo, hi)
	for l := len(p.layers) - 1; l >= 0; l-- {
		y, b := &p.layers[l], &m.blocks[l]
		if 2*l+1 < p.lowest {
			return
		}
		dmid, dout := p.dx[2*l+1], p.dx[2*l+2]
		below := p.below(2*l+1, b.norm2)
		y.ffn.Backward(w.dn, w.dh, lo, hi, below) // [T, C] → [T, C]
		if !below {
			return
		}
		b.norm2.BackwardFrom(dmid, dout, w.dn, p.x[2*l+1], y.r2, spread, lo, hi)

		if 2*l < p.lowest {
			return
		}
		din := p.dx[2*l]
		below = p.below(2*l, b.norm1)
		y.out.Backward(w.dm, lo, hi, true) // [T, C] → [T, H·D]
		if b.mix != nil {
			y.mix.backward(p, w, spread, lo, hi) // [T, H·D] → [T, C]
		} else {
			y.attn.Backward(&w.heads, p.sequence(lo, hi), w.dn, w.dm, spread, below) // [T, H·D] → [T, C]
		}
		if !below {
			return
		}
		b.norm1.BackwardFrom(din, dmid, w.dn, p.x[2*l], y.r1, spread, lo, hi)
	}
	if p.model.embedNorm.Gain != nil {
		p.embedNormBackward(w, spread, lo, hi)
	}
}

// below reports whether the input gradient of a half block is wanted: by what
// lies under it, or by the gain of its norm.
func (p *Pass[F]) below(half int, norm nn.Norm[F]) bool {
	return half > p.lowest || norm.Gain.Grad != nil
}
