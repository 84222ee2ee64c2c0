package llm

import (
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// The residual stream x has 2L+1 stages of shape [B·T, C], two per block:
//
//	x[0]    = embed(tokens)
//	x[2l+1] = x[2l] + Wo·mix(norm1(x[2l]))
//	x[2l+2] = x[2l+1] + ffn(norm2(x[2l+1]))
//	logits  = Wout·norm(x[2L])
//
// A half block writes its output to the next stage, and the norm that reads that
// stage first adds the previous one. dx[i] is the gradient of x[i]; for
// y = x + f(norm(x)) it is dx = dy + norm'(f'(dy)).

// forward computes final, the normed output of the last block, for the sequence at
// the positions [lo, hi).
func (p *Pass[F]) forward(w *worker[F], lo, hi int) {
	p.embed(lo, hi) // x[0] [T, C]
	for l := range p.layers {
		p.mixForward(w, l, lo, hi) // x[2l] [T, C] → x[2l+1] [T, C]
		p.ffnForward(l, lo, hi)    // x[2l+1] [T, C] → x[2l+2] [T, C]
	}
	last := len(p.x) - 1
	p.model.norm.ForwardAdd(p.final, p.x[last], p.x[last-1], p.finalR, lo, hi) // x[2L] += x[2L-1], final = norm(x[2L]) [T, C]
}

// backward propagates w.dn, the gradient of final [T, C], to the lowest half block
// that trains.
func (p *Pass[F]) backward(w *worker[F], spread []F, lo, hi int) {
	last := len(p.x) - 1
	p.dx[last].Part(lo, hi).Zero()
	p.model.norm.Backward(p.dx[last], w.dn, p.x[last], p.finalR, spread, lo, hi) // dx[2L] [T, C]
	for l := len(p.layers) - 1; l >= 0; l-- {
		if !p.ffnBackward(w, spread, l, lo, hi) || !p.mixBackward(w, spread, l, lo, hi) {
			return
		}
	}
	if p.model.embedNorm.Gain != nil {
		p.embedNormBackward(w, spread, lo, hi) // dx[0] [T, C]
	}
}

// mixForward computes the mixer of block l.
func (p *Pass[F]) mixForward(w *worker[F], l, lo, hi int) {
	y, b := &p.layers[l], &p.model.blocks[l]
	in := p.x[2*l]
	if l == 0 {
		b.norm1.Forward(y.norm1, in, y.r1, lo, hi) // norm1(x[0]) [T, C]
	} else {
		b.norm1.ForwardAdd(y.norm1, in, p.x[2*l-1], y.r1, lo, hi) // x[2l] += x[2l-1], norm1(x[2l]) [T, C]
	}
	if b.mix != nil {
		y.mix.forward(p, w, lo, hi) // [T, C] → mixed [T, H·D]
	} else {
		y.attn.Forward(&w.heads, p.sequence(lo, hi)) // [T, C] → mixed [T, H·D]
	}
	y.out.Forward(lo, hi, false) // x[2l+1] = mixed·Woᵀ [T, C]
}

// mixBackward computes dx[2l] and the gradients of the mixer of block l. It reports
// whether anything below it trains.
func (p *Pass[F]) mixBackward(w *worker[F], spread []F, l, lo, hi int) bool {
	if 2*l < p.lowest {
		return false
	}
	y, b := &p.layers[l], &p.model.blocks[l]
	below := p.below(2*l, b.norm1)
	y.out.Backward(w.dm, lo, hi, true) // dx[2l+1] [T, C] → dm [T, H·D]
	if b.mix != nil {
		y.mix.backward(p, w, spread, lo, hi) // dm [T, H·D] → dn [T, C]
	} else {
		y.attn.Backward(&w.heads, p.sequence(lo, hi), w.dn, w.dm, spread, below) // dm [T, H·D] → dn [T, C]
	}
	if below {
		b.norm1.BackwardFrom(p.dx[2*l], p.dx[2*l+1], w.dn, p.x[2*l], y.r1, spread, lo, hi) // dx[2l] = dx[2l+1] + norm1'(dn) [T, C]
	}
	return below
}

// ffnForward computes the feed-forward network of block l.
func (p *Pass[F]) ffnForward(l, lo, hi int) {
	y, b := &p.layers[l], &p.model.blocks[l]
	b.norm2.ForwardAdd(y.norm2, p.x[2*l+1], p.x[2*l], y.r2, lo, hi) // x[2l+1] += x[2l], norm2(x[2l+1]) [T, C]
	y.ffn.Fill(lo, hi)                                              // [T, C] → [T, F] → x[2l+2] [T, C]
}

// ffnBackward computes dx[2l+1] and the gradients of the feed-forward network of
// block l. It reports whether anything below it trains.
func (p *Pass[F]) ffnBackward(w *worker[F], spread []F, l, lo, hi int) bool {
	if 2*l+1 < p.lowest {
		return false
	}
	y, b := &p.layers[l], &p.model.blocks[l]
	below := p.below(2*l+1, b.norm2)
	y.ffn.Backward(w.dn, w.dh, lo, hi, below) // dx[2l+2] [T, C] → dh [T, F] → dn [T, C]
	if below {
		b.norm2.BackwardFrom(p.dx[2*l+1], p.dx[2*l+2], w.dn, p.x[2*l+1], y.r2, spread, lo, hi) // dx[2l+1] = dx[2l+2] + norm2'(dn) [T, C]
	}
	return below
}

// below reports whether the input gradient of a half block is needed, for a layer
// below it or for the gain of its norm.
func (p *Pass[F]) below(half int, norm nn.Norm[F]) bool {
	return half > p.lowest || norm.Gain.Grad != nil
}

// predict computes the head, the loss and the head's backward pass. It returns the
// sum of nats over the positions with a target. If dn is not empty, dn is set to
// the gradient of final [T, C]. The logits [T, V] are replaced by their gradient.
func (p *Pass[F]) predict(dn nn.Matrix[F], lo, hi int) (sum float64) {
	for first := lo; lo < hi; lo += nn.RowBlock {
		end := min(lo+nn.RowBlock, hi)
		p.head.Forward(lo, end, false) // final [T, C] → logits [T, V]
		for t := lo; t < end; t++ {
			logits, target := p.head.Y.Row(t), int(p.batch.Targets[t]) // [V]
			if p.batch.Best != nil && target >= 0 {
				p.batch.Best[t] = argmax(logits)
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
			p.head.Backward(dn.Part(lo-first, end-first), lo, end, true) // [T, V] → dn [T, C]
		}
	}
	return sum
}

// argmax returns the token with the highest logit, the first of equals.
func argmax[F tensor.Float](logits []F) int32 {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return int32(best)
}
