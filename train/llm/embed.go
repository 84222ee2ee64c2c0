package llm

import "mm-abi.org/mm/core/tensor"

// embed computes x[0]: the token's row of the embedding, or the vector injected
// at that position, followed by the embedding norm, if any.
func (p *Pass[F]) embed(lo, hi int) {
	m, c := p.model, p.model.Config.Dim
	dst := p.x[0]
	if m.embedNorm.Gain != nil {
		dst = p.raw
	}
	for t := lo; t < hi; t++ {
		if e := int(p.entry[t]); e >= 0 {
			copy(dst.Row(t), p.batch.Embeds[e*c:(e+1)*c])
		} else {
			m.embed.Row(dst.Row(t), int(p.batch.Tokens[t]))
		}
	}
	if m.embedNorm.Gain != nil {
		m.embedNorm.Forward(p.x[0], p.raw, p.rawR, lo, hi)
	}
}

// embedNormBackward replaces the gradient of x[0] by that of the embeddings
// before their norm.
func (p *Pass[F]) embedNormBackward(w *worker[F], spread []F, lo, hi int) {
	dx, dy := p.dx[0].Part(lo, hi), w.dn
	for t := range dx.Rows {
		copy(dy.Row(t), dx.Row(t))
	}
	dx.Zero()
	p.model.embedNorm.Backward(p.dx[0], dy, p.raw, p.rawR, spread, lo, hi)
}

// embedGrads scatters the gradient of x[0] in the order of positions, to the
// injected vectors or to the rows of the embedding.
func (p *Pass[F]) embedGrads() {
	m, c := p.model, p.model.Config.Dim
	for t := range p.B * p.T {
		switch e := int(p.entry[t]); {
		case e >= 0 && p.batch.EmbedGrads != nil:
			copy(p.batch.EmbedGrads[e*c:(e+1)*c], p.dx[0].Row(t))
		case e < 0 && m.embed.Grad != nil:
			at := int(p.batch.Tokens[t]) * c
			tensor.AddScaled(m.embed.Grad[at:at+c], 1, p.dx[0].Row(t))
		}
	}
}
