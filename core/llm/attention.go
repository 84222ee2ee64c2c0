package llm

import "mm-abi.org/mm/core/tensor"

// queryBlock is how many queries attend at a time: their scores against the
// keys up to the last of them, [queryBlock, T], are all that is ever stored, and
// keys after them are never multiplied.
const queryBlock = 48

// attention is the mixing half of a block: causal softmax attention with
// rotary positions and grouped heads. The scores are not kept: the backward
// pass computes them again from the logarithm of their sum (Dao et al., arXiv
// 2205.14135).
type attention[F tensor.Float] struct {
	qkv   product[F] // [B·T, C] → [B·T, (H+2G)·D], after norm and rotation
	raw   matrix[F]  // before them, with QKNorm
	r     matrix[F]  // [B·T, H+G]: 1/rms of each query and key head
	lse   matrix[F]  // [B·T, H]: logarithm of the sum of exponentials
	mixed matrix[F]  // [B·T, H·D]
	c     Config
}

func newAttention[F tensor.Float](c Config, b *block[F], in, mixed matrix[F]) attention[F] {
	n := in.rows
	a := attention[F]{lse: newMatrix[F](n, c.Heads), mixed: mixed, c: c}
	a.qkv = newProduct(b.qkv, in, newMatrix[F](n, b.qkv.out), newMatrix[F](n, b.qkv.out))
	if c.QKNorm {
		a.raw, a.r = newMatrix[F](n, b.qkv.out), newMatrix[F](n, c.Heads+c.KVHeads)
	}
	return a
}

// headScratch is what one thread needs to attend with one key/value head.
type headScratch[F tensor.Float] struct {
	kT, vT *tensor.Panels[F] // [D, T]
	k, v   *tensor.Panels[F] // [T, D]
	side   *tensor.Panels[F] // [queryBlock, D]: queries or output gradients
	p, dp  matrix[F]         // [queryBlock, T]: scores, then probabilities, and their gradient
}

func newHeadScratch[F tensor.Float](c Config, T int) headScratch[F] {
	rows := min(queryBlock, T)
	return headScratch[F]{
		kT: tensor.NewPanels[F](c.HeadDim, T), vT: tensor.NewPanels[F](c.HeadDim, T),
		k: tensor.NewPanels[F](T, c.HeadDim), v: tensor.NewPanels[F](T, c.HeadDim),
		side: tensor.NewPanels[F](rows, c.HeadDim),
		p:    newMatrix[F](rows, vectors(T)), dp: newMatrix[F](rows, vectors(T)),
	}
}

// vectors is n rounded up to whole vectors: the columns that the softmax of a
// row of n scores works on.
func vectors(n int) int { return (n + 7) &^ 7 }

// heads of the stacked query, key and value: column ranges of one head.
func (a *attention[F]) query(m matrix[F], h int) matrix[F] {
	return m.columns(h*a.c.HeadDim, (h+1)*a.c.HeadDim)
}
func (a *attention[F]) key(m matrix[F], g int) matrix[F] { return a.query(m, a.c.Heads+g) }
func (a *attention[F]) value(m matrix[F], g int) matrix[F] {
	return a.query(m, a.c.Heads+a.c.KVHeads+g)
}

// forward fills mixed [T, H·D] from the normed input [T, C].
func (a *attention[F]) forward(p *Pass[F], w *worker[F], b *block[F], lo, hi int) {
	a.qkv.forward(lo, hi, false) // [T, (H+2G)·D]
	a.position(p, b, lo, hi)
	qkv, out, s := a.qkv.y.part(lo, hi), a.mixed.part(lo, hi), &w.heads
	for g := range a.c.KVHeads {
		k, v := a.key(qkv, g), a.value(qkv, g)
		s.kT.PackTransposed(k.data, k.ld)
		s.v.Pack(v.data, v.ld)
		group := a.c.Heads / a.c.KVHeads
		for h := g * group; h < (g+1)*group; h++ {
			q, o := a.query(qkv, h), a.query(out, h)
			for i := 0; i < p.T; i += queryBlock {
				a.attend(p, s, q, o, h, lo, i, min(i+queryBlock, p.T))
			}
		}
	}
}

// position applies the head norm, if there is one, and the rotation to the
// queries and keys, in place.
func (a *attention[F]) position(p *Pass[F], b *block[F], lo, hi int) {
	d, heads := a.c.HeadDim, a.c.Heads+a.c.KVHeads
	for t := lo; t < hi; t++ {
		row := a.qkv.y.row(t)[:heads*d]
		if a.c.QKNorm {
			copy(a.raw.row(t), row)
			for h := range heads {
				a.r.row(t)[h] = tensor.NormForward(row[h*d:(h+1)*d], a.raw.row(t)[h*d:(h+1)*d], a.headGain(b, h).Data, F(a.c.NormEps))
			}
		}
		tensor.Rotate(row, d, p.cos.row(t-lo), p.sin.row(t-lo), a.c.Rope == RopePairs)
	}
}

func (a *attention[F]) headGain(b *block[F], h int) *Tensor[F] {
	if h < a.c.Heads {
		return b.qNorm
	}
	return b.kNorm
}

// attend is head h for the queries [i, j) of the sequence at lo:
// o = softmax(q·kᵀ/√D)·v over the keys of each query's document up to itself.
func (a *attention[F]) attend(p *Pass[F], s *headScratch[F], q, o matrix[F], h, lo, i, j int) {
	first, prob := a.scores(p, s, q, lo, i, j)
	for t := i; t < j; t++ {
		a.lse.row(lo + t)[h] = tensor.SoftmaxForward(s.p.row(t - i)[:vectors(j-first)], p.start(lo, t)-first, t+1-first)
	}
	v, o := s.v.View(first, j, 0, a.c.HeadDim), o.part(i, j)
	v.Mul(j-i, 1, prob.left(), 0, o.data, o.ld) // [j-i, j-first]·[j-first, D]
}

// scores computes q·kᵀ/√D of the queries [i, j) against the keys [first, j),
// where first is the earliest that any of them sees, rounded down to a panel.
func (a *attention[F]) scores(p *Pass[F], s *headScratch[F], q matrix[F], lo, i, j int) (first int, prob matrix[F]) {
	first = p.start(lo, i) / s.kT.Width() * s.kT.Width()
	prob = s.p.part(0, j-i).columns(0, j-first)
	q = q.part(i, j)
	k := s.kT.View(0, a.c.HeadDim, first, j)
	k.Mul(j-i, F(invSqrt(a.c.HeadDim)), q.left(), 0, prob.data, prob.ld) // [j-i, D]·[D, j-first]
	return first, prob
}

// backward takes w.dm, the gradient of mixed [T, H·D], to the gradient of qkv
// and with below to w.dn, that of the normed input [T, C].
func (a *attention[F]) backward(p *Pass[F], w *worker[F], b *block[F], spread []F, lo, hi int, below bool) {
	qkv, dqkv, out, s := a.qkv.y.part(lo, hi), a.qkv.dy.part(lo, hi), a.mixed.part(lo, hi), &w.heads
	for g := range a.c.KVHeads {
		k, v, dk, dv := a.key(qkv, g), a.value(qkv, g), a.key(dqkv, g), a.value(dqkv, g)
		s.kT.PackTransposed(k.data, k.ld)
		s.vT.PackTransposed(v.data, v.ld)
		s.k.Pack(k.data, k.ld)
		dk.zero()
		dv.zero()
		group := a.c.Heads / a.c.KVHeads
		for h := g * group; h < (g+1)*group; h++ {
			q, dq, o, do := a.query(qkv, h), a.query(dqkv, h), a.query(out, h), a.query(w.dm, h)
			for i := 0; i < p.T; i += queryBlock {
				a.attendBackward(p, s, q, dq, dk, dv, o, do, h, lo, i, min(i+queryBlock, p.T))
			}
		}
	}
	a.positionBackward(p, w, b, spread, lo, hi)
	a.qkv.backward(w.dn, lo, hi, below)
}

// attendBackward is the gradient of attend for the queries [i, j):
// with P the probabilities and dP = do·vᵀ, dS = P∘(dP - Σ P·dP)/√D, then
// dq = dS·k, dk += dSᵀ·q, dv += Pᵀ·do.
func (a *attention[F]) attendBackward(p *Pass[F], s *headScratch[F], q, dq, dk, dv, o, do matrix[F], h, lo, i, j int) {
	d := a.c.HeadDim
	first, prob := a.scores(p, s, q, lo, i, j)
	n := j - first
	dprob := s.dp.part(0, j-i).columns(0, n)
	q, dq, o, do = q.part(i, j), dq.part(i, j), o.part(i, j), do.part(i, j)
	v := s.vT.View(0, d, first, j)
	v.Mul(j-i, 1, do.left(), 0, dprob.data, dprob.ld) // [j-i, D]·[D, n]
	for t := i; t < j; t++ {
		delta := tensor.Inner(o.row(t-i), do.row(t-i)) // Σ P·dP
		tensor.SoftmaxBackward(s.p.row(t - i)[:vectors(n)], s.dp.row(t - i)[:vectors(n)], p.start(lo, t)-first, t+1-first,
			a.lse.row(lo + t)[h], delta, F(invSqrt(d)))
	}
	k := s.k.View(first, j, 0, d)
	k.Mul(j-i, 1, dprob.left(), 0, dq.data, dq.ld) // [j-i, n]·[n, D]
	dk, dv = dk.part(first, j), dv.part(first, j)
	s.side.Resize(j-i, d)
	s.side.Pack(q.data, q.ld)
	s.side.Mul(n, 1, dprob.leftT(), 1, dk.data, dk.ld) // [n, j-i]·[j-i, D]
	s.side.Pack(do.data, do.ld)
	s.side.Mul(n, 1, prob.leftT(), 1, dv.data, dv.ld) // [n, j-i]·[j-i, D]
}

// positionBackward undoes position on the gradient, in place.
func (a *attention[F]) positionBackward(p *Pass[F], w *worker[F], b *block[F], spread []F, lo, hi int) {
	d, heads := a.c.HeadDim, a.c.Heads+a.c.KVHeads
	for t := lo; t < hi; t++ {
		row := a.qkv.dy.row(t)[:heads*d]
		tensor.Rotate(row, d, p.cos.row(t-lo), p.nsin.row(t-lo), a.c.Rope == RopePairs)
		if !a.c.QKNorm {
			continue
		}
		dx := w.dm.row(t - lo)[:d] // free by now
		for h := range heads {
			gain, dy := a.headGain(b, h), row[h*d:(h+1)*d]
			clear(dx)
			dgain := spread[gain.at : gain.at+d]
			tensor.NormBackward(dx, dgain, dy, a.raw.row(t)[h*d:(h+1)*d], gain.Data, a.r.row(t)[h])
			copy(dy, dx)
		}
	}
}
