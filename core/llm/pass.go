package llm

import (
	"math"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
)

// Batch is what one pass works on: B sequences of T positions.
type Batch[F tensor.Float] struct {
	Tokens  []int32 // [B·T]
	Targets []int32 // [B·T]: the token to predict at each position; negative: none
	// Starts [B·T] is the position, counted within the sequence, at which the
	// document of each position begins. Nothing before it is seen: attention and
	// recurrent state begin there. nil: each sequence is one document. Starts
	// must not decrease along a sequence nor lie after their position.
	Starts []int32

	// Embeds [n, C] stand in place of the token embeddings at the positions
	// Rows [n], counted over the whole batch: where a projector's output enters.
	Embeds []F
	Rows   []int32
	// EmbedGrads [n, C], when set, receives the loss gradient of Embeds.
	EmbedGrads []F
}

// Pass is the memory of a forward and backward pass over B sequences of T
// positions. It is used by one goroutine at a time.
type Pass[F tensor.Float] struct {
	B, T int

	model *Model[F]
	pool  *pool.Pool
	batch Batch[F]
	scale F       // of the loss, in its gradient
	entry []int32 // [B·T]: index into Embeds, or -1
	add   bool    // weight gradients are added to those of earlier batches

	cos, sin, nsin matrix[F]   // [T, D/2]: the angles of each position; nsin = -sin
	x, dx          []matrix[F] // residual stream before and after every half block, [B·T, C]
	raw            matrix[F]   // embeddings before their norm, with Config.EmbedNorm
	rawR           []F
	layers         []layer[F]
	final          matrix[F] // normed output of the last block [B·T, C]
	finalR         []F       // its 1/rms
	head           product[F]

	spread  [][]F     // [B][gradients of all spread tensors]
	loss    []float64 // [B]: sum of nats
	lowest  int       // first half block that the backward pass reaches
	works   []worker[F]
	grads   []weightGrad[F]
	columns []columnTask // panels of all weight gradients

	run struct{ train, eval, columns pool.Func } // bound once: a step allocates nothing
}

// layer is the activations of one block.
type layer[F tensor.Float] struct {
	norm1, norm2 matrix[F] // normed inputs of the halves [B·T, C]
	r1, r2       []F       // 1/rms of their rows
	attn         attention[F]
	mix          timeMixing[F]
	out          product[F]
	ffn          feedForward[F]
}

// worker is the scratch of one thread, for one sequence.
type worker[F tensor.Float] struct {
	panel *tensor.Panels[F] // one panel of a weight gradient
	dn    matrix[F]         // [T, C]: gradient of a normed input
	dm    matrix[F]         // [T, H·D]: gradient of a mixer's output
	dh    matrix[F]         // [rowBlock, F]: gradient inside the feed-forward network
	heads headScratch[F]
	mix   mixScratch[F]
}

// columnTask is one panel of one weight gradient.
type columnTask struct{ grad, column int }

// NewPass allocates a pass of B sequences of T positions; p may be nil for one
// thread. It is for the tensors trainable now: Freeze invalidates it.
func (m *Model[F]) NewPass(p *pool.Pool, B, T int) *Pass[F] {
	c, n := m.Config, B*T
	s := &Pass[F]{B: B, T: T, model: m, pool: p, entry: make([]int32, n), loss: make([]float64, B)}
	s.cos, s.sin, s.nsin = angles[F](c, T)
	s.raw, s.rawR = newMatrix[F](n, c.Dim), make([]F, n)
	for range 2*c.Layers + 1 {
		s.x, s.dx = append(s.x, newMatrix[F](n, c.Dim)), append(s.dx, newMatrix[F](n, c.Dim))
	}
	for l := range c.Layers {
		s.layers = append(s.layers, s.newLayer(l))
	}
	s.final, s.finalR = newMatrix[F](n, c.Dim), make([]F, n)
	logits := newMatrix[F](n, c.Vocab) // the loss turns them into their gradient in place
	s.head = newProduct(m.head, s.final, logits, logits)
	for range B {
		s.spread = append(s.spread, make([]F, m.spreads))
	}
	threads := 1
	if p != nil {
		threads = p.Threads()
	}
	for range threads {
		s.works = append(s.works, s.newWorker())
	}
	s.plan()
	s.run.train, s.run.eval, s.run.columns = s.trainSequences, s.evalSequences, s.gradColumns
	return s
}

func (p *Pass[F]) newLayer(l int) layer[F] {
	c, b, n := p.model.Config, &p.model.blocks[l], p.B*p.T
	y := layer[F]{norm1: newMatrix[F](n, c.Dim), norm2: newMatrix[F](n, c.Dim), r1: make([]F, n), r2: make([]F, n)}
	mixed := newMatrix[F](n, c.Heads*c.HeadDim)
	if b.mix != nil {
		y.mix = newTimeMixing(c, b.mix, y.norm1, mixed)
	} else {
		y.attn = newAttention(c, b, y.norm1, mixed)
	}
	y.out = newProduct(b.out, mixed, p.x[2*l+1], p.dx[2*l+1])
	y.ffn = newFeedForward(c, b, y.norm2, p.x[2*l+2], p.dx[2*l+2])
	return y
}

func (p *Pass[F]) newWorker() worker[F] {
	c := p.model.Config
	w := worker[F]{panel: tensor.NewPanels[F](1, 1), dn: newMatrix[F](p.T, c.Dim), dm: newMatrix[F](p.T, c.Heads*c.HeadDim), dh: newMatrix[F](min(p.T, rowBlock), c.Hidden)}
	if c.Mixer == RWKV {
		w.mix = newMixScratch[F](c, p.T)
	} else {
		w.heads = newHeadScratch[F](c, p.T)
	}
	return w
}

// plan finds where the backward pass ends and cuts the weight gradients.
func (p *Pass[F]) plan() {
	m := p.model
	p.lowest = 2 * len(m.blocks)
	for _, t := range m.Tensors() {
		if t.Grad == nil {
			continue
		}
		p.lowest = min(p.lowest, m.half(t))
	}
	p.grads = p.head.grads(m)
	for l := range p.layers {
		y := &p.layers[l]
		for _, q := range []*product[F]{&y.attn.qkv, &y.mix.r, &y.mix.k, &y.mix.v, &y.out, &y.ffn.up, &y.ffn.down} {
			if q.linear != nil {
				p.grads = append(p.grads, q.grads(m)...)
			}
		}
	}
	for i, g := range p.grads {
		for j := 0; j < g.in; j += p.works[0].panel.Width() {
			p.columns = append(p.columns, columnTask{i, j})
		}
	}
}

// half is the half block t belongs to: 2l mixes, 2l+1 feeds forward, -1 is
// below the blocks and 2·Layers above them.
func (m *Model[F]) half(t *Tensor[F]) int {
	switch {
	case t == m.embed || t == m.embedNorm:
		return -1
	case t.Layer < 0:
		return 2 * len(m.blocks)
	case feeds(blockKind(t)):
		return 2*t.Layer + 1
	}
	return 2 * t.Layer
}

// feeds reports whether a tensor of this kind belongs to the feed-forward half.
func feeds(kind string) bool { return len(kind) > 4 && kind[:4] == "ffn_" }

// angles tabulates the rotations of T positions: angle(t, i) = t·base^(-2i/D).
func angles[F tensor.Float](c Config, T int) (cos, sin, nsin matrix[F]) {
	half := c.HeadDim / 2
	cos, sin, nsin = newMatrix[F](T, half), newMatrix[F](T, half), newMatrix[F](T, half)
	for t := range T {
		for i := range half {
			s, co := math.Sincos(float64(t) * math.Pow(c.RopeBase, -2*float64(i)/float64(c.HeadDim)))
			cos.row(t)[i], sin.row(t)[i], nsin.row(t)[i] = F(co), F(s), F(-s)
		}
	}
	return cos, sin, nsin
}
