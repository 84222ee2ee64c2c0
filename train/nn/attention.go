package nn

import (
	"math"
	"sort"

	"mm-abi.org/mm/core/tensor"
)

// Attention is softmax attention (Vaswani et al., arXiv 1706.03762) with
// grouped heads and, optionally, rotary positions and a norm on every query and
// key head. If Causal, a position attends to its document up to itself,
// otherwise to all of its document.
type Attention[F tensor.Float] struct {
	Heads, KVHeads, HeadDim int // H, G, D

	QKV          *Linear[F] // [(H+2G)·D, C]: stacked queries, keys and values
	QNorm, KNorm Norm[F]    // of every head, gains [D]; no norm if the gain is nil
	Causal       bool
}

// Rotation is rotary position embedding (Su et al., arXiv 2104.09864): the
// angles of T positions, angle(t, i) = t·base^(-2i/D).
type Rotation[F tensor.Float] struct {
	Cos, Sin Matrix[F] // [T, D/2]
	Pairs    bool      // rotates (x[2i], x[2i+1]), otherwise (x[i], x[i+D/2])
	nsin     Matrix[F] // -Sin, for the backward pass
}

// NewRotation tabulates the angles of T positions for heads of d elements.
func NewRotation[F tensor.Float](base float64, d, T int, pairs bool) *Rotation[F] {
	half := d / 2
	r := &Rotation[F]{Cos: NewMatrix[F](T, half), Sin: NewMatrix[F](T, half), nsin: NewMatrix[F](T, half), Pairs: pairs}
	for t := range T {
		for i := range half {
			s, co := math.Sincos(float64(t) * math.Pow(base, -2*float64(i)/float64(d)))
			r.Cos.Row(t)[i], r.Sin.Row(t)[i], r.nsin.Row(t)[i] = F(co), F(s), F(-s)
		}
	}
	return r
}

// Sequence is the positions [Lo, Hi) of a batch. Starts [Hi-Lo] holds, for each
// position, the index in the sequence at which its document begins. If nil, the
// sequence is one document.
type Sequence struct {
	Lo, Hi int
	Starts []int32
}

// Start returns the index at which t's document begins.
func (s Sequence) Start(t int) int {
	if s.Starts == nil {
		return 0
	}
	return int(s.Starts[t])
}

// End returns the index at which t's document ends.
func (s Sequence) End(t int) int {
	if s.Starts == nil {
		return s.Hi - s.Lo
	}
	return t + 1 + sort.Search(s.Hi-s.Lo-t-1, func(i int) bool { return int(s.Starts[t+1+i]) > t })
}

// queryBlock is the number of queries that attend at a time. Only their scores
// against the keys that any of them attends to, [queryBlock, T], are stored,
// and other keys are not multiplied.
const queryBlock = 48

// AttentionPass is attention with the activations of a pass. The scores are not
// kept: the backward pass recomputes them from the logarithm of their sum (Dao
// et al., arXiv 2205.14135).
type AttentionPass[F tensor.Float] struct {
	*Attention[F]
	Product  Product[F]   // [B·T, C] → [B·T, (H+2G)·D], after norm and rotation
	Rotation *Rotation[F] // of queries and keys; nil: no positions

	raw   Matrix[F] // before norm and rotation; only if heads have norms
	r     Matrix[F] // [B·T, H+G]: 1/rms of each query and key head
	lse   Matrix[F] // [B·T, H]: logarithm of the sum of exponentials
	mixed Matrix[F] // [B·T, H·D]
}

// NewAttentionPass creates the pass of a between in [B·T, C] and mixed [B·T,
// H·D].
func NewAttentionPass[F tensor.Float](a *Attention[F], rot *Rotation[F], in, mixed Matrix[F]) AttentionPass[F] {
	n := in.Rows
	p := AttentionPass[F]{Attention: a, Rotation: rot, lse: NewMatrix[F](n, a.Heads), mixed: mixed}
	p.Product = NewProduct(a.QKV, in, NewMatrix[F](n, a.QKV.Out), NewMatrix[F](n, a.QKV.Out))
	if a.normed() {
		p.raw, p.r = NewMatrix[F](n, a.QKV.Out), NewMatrix[F](n, a.Heads+a.KVHeads)
	}
	return p
}

func (a *Attention[F]) normed() bool { return a.QNorm.Gain != nil }

// HeadNorm returns the norm of head h, counted through queries and keys.
func (a *Attention[F]) HeadNorm(h int) Norm[F] {
	if h < a.Heads {
		return a.QNorm
	}
	return a.KNorm
}

// scale returns the factor of the scores, 1/√D.
func (a *Attention[F]) scale() F { return F(1 / math.Sqrt(float64(a.HeadDim))) }

// AttentionScratch holds the buffers that one thread needs for one key/value
// head.
type AttentionScratch[F tensor.Float] struct {
	kT, vT *tensor.Panels[F] // [D, T]
	k, v   *tensor.Panels[F] // [T, D]
	side   *tensor.Panels[F] // [queryBlock, D]: queries or output gradients
	p, dp  Matrix[F]         // [queryBlock, T]: scores, then probabilities, and their gradient
}

// NewAttentionScratch allocates for heads of d elements and sequences of T
// positions.
func NewAttentionScratch[F tensor.Float](d, T int) AttentionScratch[F] {
	rows := min(queryBlock, T)
	return AttentionScratch[F]{
		kT: tensor.NewPanels[F](d, T), vT: tensor.NewPanels[F](d, T),
		k: tensor.NewPanels[F](T, d), v: tensor.NewPanels[F](T, d),
		side: tensor.NewPanels[F](rows, d),
		p:    NewMatrix[F](rows, vectors(T)), dp: NewMatrix[F](rows, vectors(T)),
	}
}

// vectors rounds n up to whole vectors: the columns that the softmax of a row
// of n scores processes.
func vectors(n int) int { return (n + 7) &^ 7 }

// query, key and value return the columns of one head in the stacked product.
func (a *Attention[F]) query(m Matrix[F], h int) Matrix[F] {
	return m.Columns(h*a.HeadDim, (h+1)*a.HeadDim)
}
func (a *Attention[F]) key(m Matrix[F], g int) Matrix[F] { return a.query(m, a.Heads+g) }
func (a *Attention[F]) value(m Matrix[F], g int) Matrix[F] {
	return a.query(m, a.Heads+a.KVHeads+g)
}

// Forward fills mixed [T, H·D] from the input [T, C].
func (a *AttentionPass[F]) Forward(s *AttentionScratch[F], seq Sequence) {
	a.Product.Forward(seq.Lo, seq.Hi, false) // [T, (H+2G)·D]
	a.position(seq)
	qkv, out, T := a.Product.Y.Part(seq.Lo, seq.Hi), a.mixed.Part(seq.Lo, seq.Hi), seq.Hi-seq.Lo
	for g := range a.KVHeads {
		k, v := a.key(qkv, g), a.value(qkv, g)
		s.kT.PackTransposed(k.Data, k.LD)
		s.v.Pack(v.Data, v.LD)
		group := a.Heads / a.KVHeads
		for h := g * group; h < (g+1)*group; h++ {
			q, o := a.query(qkv, h), a.query(out, h)
			for i := 0; i < T; i += queryBlock {
				a.attend(s, seq, q, o, h, i, min(i+queryBlock, T))
			}
		}
	}
}

// position applies the head norm, if any, and the rotation to the queries and
// keys, in place.
func (a *AttentionPass[F]) position(seq Sequence) {
	d, heads := a.HeadDim, a.Heads+a.KVHeads
	for t := seq.Lo; t < seq.Hi; t++ {
		row := a.Product.Y.Row(t)[:heads*d]
		if a.normed() {
			copy(a.raw.Row(t), row)
			for h := range heads {
				norm := a.HeadNorm(h)
				a.r.Row(t)[h] = tensor.NormForward(row[h*d:(h+1)*d], a.raw.Row(t)[h*d:(h+1)*d], norm.Gain.Data, norm.Eps)
			}
		}
		if rot := a.Rotation; rot != nil {
			tensor.Rotate(row, d, rot.Cos.Row(t-seq.Lo), rot.Sin.Row(t-seq.Lo), rot.Pairs)
		}
	}
}

// end returns the end of the keys that position t attends to.
func (a *Attention[F]) end(seq Sequence, t int) int {
	if a.Causal {
		return t + 1
	}
	return seq.End(t)
}

// attend computes head h for the queries [i, j) of the sequence: o =
// softmax(q·kᵀ/√D)·v over the keys that each query attends to.
func (a *AttentionPass[F]) attend(s *AttentionScratch[F], seq Sequence, q, o Matrix[F], h, i, j int) {
	first, last, prob := a.scores(s, seq, q, i, j)
	for t := i; t < j; t++ {
		a.lse.Row(seq.Lo + t)[h] = tensor.SoftmaxForward(s.p.Row(t - i)[:vectors(last-first)], seq.Start(t)-first, a.end(seq, t)-first)
	}
	v, o := s.v.View(first, last, 0, a.HeadDim), o.Part(i, j)
	v.Mul(j-i, 1, prob.Left(), 0, o.Data, o.LD) // [j-i, last-first]·[last-first, D]
}

// scores computes q·kᵀ/√D of the queries [i, j) against the keys [first, last),
// from the earliest that any of them attends to, rounded down to a panel, to
// the last.
func (a *AttentionPass[F]) scores(s *AttentionScratch[F], seq Sequence, q Matrix[F], i, j int) (first, last int, prob Matrix[F]) {
	first, last = seq.Start(i)/s.kT.Width()*s.kT.Width(), a.end(seq, j-1)
	prob = s.p.Part(0, j-i).Columns(0, last-first)
	q = q.Part(i, j)
	k := s.kT.View(0, a.HeadDim, first, last)
	k.Mul(j-i, a.scale(), q.Left(), 0, prob.Data, prob.LD) // [j-i, D]·[D, last-first]
	return first, last, prob
}

// Backward computes, from dmixed, the gradient of mixed [T, H·D] with the rows
// of this sequence, the gradient of the stacked product and, if below is set,
// dn, the gradient of the input [T, C]. It overwrites dmixed.
func (a *AttentionPass[F]) Backward(s *AttentionScratch[F], seq Sequence, dn, dmixed Matrix[F], spread []F, below bool) {
	lo, hi := seq.Lo, seq.Hi
	qkv, dqkv, out, T := a.Product.Y.Part(lo, hi), a.Product.DY.Part(lo, hi), a.mixed.Part(lo, hi), hi-lo
	for g := range a.KVHeads {
		k, v, dk, dv := a.key(qkv, g), a.value(qkv, g), a.key(dqkv, g), a.value(dqkv, g)
		s.kT.PackTransposed(k.Data, k.LD)
		s.vT.PackTransposed(v.Data, v.LD)
		s.k.Pack(k.Data, k.LD)
		dk.Zero()
		dv.Zero()
		group := a.Heads / a.KVHeads
		for h := g * group; h < (g+1)*group; h++ {
			q, dq, o, do := a.query(qkv, h), a.query(dqkv, h), a.query(out, h), a.query(dmixed, h)
			for i := 0; i < T; i += queryBlock {
				a.attendBackward(s, seq, q, dq, dk, dv, o, do, h, i, min(i+queryBlock, T))
			}
		}
	}
	a.positionBackward(seq, dmixed, spread)
	a.Product.Backward(dn, lo, hi, below)
}

// attendBackward is the gradient of attend for the queries [i, j). With P the
// probabilities and dP = do·vᵀ: dS = P∘(dP - Σ P·dP)/√D, dq = dS·k, dk +=
// dSᵀ·q, dv += Pᵀ·do.
func (a *AttentionPass[F]) attendBackward(s *AttentionScratch[F], seq Sequence, q, dq, dk, dv, o, do Matrix[F], h, i, j int) {
	d := a.HeadDim
	first, last, prob := a.scores(s, seq, q, i, j)
	n := last - first
	dprob := s.dp.Part(0, j-i).Columns(0, n)
	q, dq, o, do = q.Part(i, j), dq.Part(i, j), o.Part(i, j), do.Part(i, j)
	v := s.vT.View(0, d, first, last)
	v.Mul(j-i, 1, do.Left(), 0, dprob.Data, dprob.LD) // [j-i, D]·[D, n]
	for t := i; t < j; t++ {
		delta := tensor.Inner(o.Row(t-i), do.Row(t-i)) // Σ P·dP
		tensor.SoftmaxBackward(s.p.Row(t - i)[:vectors(n)], s.dp.Row(t - i)[:vectors(n)], seq.Start(t)-first, a.end(seq, t)-first,
			a.lse.Row(seq.Lo + t)[h], delta, a.scale())
	}
	k := s.k.View(first, last, 0, d)
	k.Mul(j-i, 1, dprob.Left(), 0, dq.Data, dq.LD) // [j-i, n]·[n, D]
	dk, dv = dk.Part(first, last), dv.Part(first, last)
	s.side.Resize(j-i, d)
	s.side.Pack(q.Data, q.LD)
	s.side.Mul(n, 1, dprob.LeftT(), 1, dk.Data, dk.LD) // [n, j-i]·[j-i, D]
	s.side.Pack(do.Data, do.LD)
	s.side.Mul(n, 1, prob.LeftT(), 1, dv.Data, dv.LD) // [n, j-i]·[j-i, D]
}

// positionBackward transforms the gradient in place from after position to
// before it.
func (a *AttentionPass[F]) positionBackward(seq Sequence, scratch Matrix[F], spread []F) {
	d, heads := a.HeadDim, a.Heads+a.KVHeads
	for t := seq.Lo; t < seq.Hi; t++ {
		row := a.Product.DY.Row(t)[:heads*d]
		if rot := a.Rotation; rot != nil {
			tensor.Rotate(row, d, rot.Cos.Row(t-seq.Lo), rot.nsin.Row(t-seq.Lo), rot.Pairs)
		}
		if !a.normed() {
			continue
		}
		dx := scratch.Row(t - seq.Lo)[:d]
		for h := range heads {
			gain, dy := a.HeadNorm(h).Gain, row[h*d:(h+1)*d]
			clear(dx)
			tensor.NormBackward(dx, gain.In(spread), dy, a.raw.Row(t)[h*d:(h+1)*d], gain.Data, a.r.Row(t)[h])
			copy(dy, dx)
		}
	}
}
