package llm

import (
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/train/nn"
)

// Batch is the input of a pass: B sequences of T positions.
type Batch[F tensor.Float] struct {
	Tokens  []int32 // [B·T]
	Targets []int32 // [B·T]: the token to predict at each position; negative: none
	// Starts [B·T] is the index in the sequence at which the document of each
	// position begins. Attention and recurrent state begin there. If nil, each
	// sequence is one document. Starts must not decrease along a sequence nor
	// exceed their position.
	Starts []int32

	// Embeds [n, C] replace the token embeddings at the positions Rows [n],
	// counted over the entire batch: the output of a projector.
	Embeds []F
	Rows   []int32
	// EmbedGrads [n, C], if set, receives the loss gradient of Embeds.
	EmbedGrads []F

	// Best [B·T], if set, receives the likeliest token at every position with a
	// target: the choice of greedy decoding, provided that its earlier choices
	// matched the targets.
	Best []int32
}

// Pass is a forward and backward pass over B sequences of T positions. It is
// for one goroutine at a time.
type Pass[F tensor.Float] struct {
	B, T int

	model *Model[F]
	pool  *pool.Pool
	batch Batch[F]
	scale F       // of the loss, in its gradient
	entry []int32 // [B·T]: index into Embeds, or -1
	add   bool    // add to the weight gradients of earlier batches

	rotation *nn.Rotation[F] // angles of each position
	x, dx    []nn.Matrix[F]  // residual stream before and after every half block, [B·T, C]
	raw      nn.Matrix[F]    // embeddings before their norm, with Config.EmbedNorm
	rawR     []F
	layers   []layer[F]
	final    nn.Matrix[F] // normed output of the last block [B·T, C]
	finalR   []F          // its 1/rms
	head     nn.Product[F]

	spread  [][]F     // [B][gradients of all vectors]
	loss    []float64 // [B]: sums of nats
	factors []float64 // [B]: of the losses in the gradient, see TrainWeighted
	lowest  int       // first half block that the backward pass reaches
	works   []worker[F]
	grads   *nn.Gradients[F] // of the matrices

	run struct{ train, eval, states, columns, losses, weighted pool.Func } // bound once: a step does not allocate
}

// layer holds the activations of one block.
type layer[F tensor.Float] struct {
	norm1, norm2 nn.Matrix[F] // normed inputs of the halves [B·T, C]
	r1, r2       []F          // 1/rms of their rows
	attn         nn.AttentionPass[F]
	mix          timeMixing[F]
	out          nn.Product[F]
	ffn          nn.FFNPass[F]
}

// worker is the scratch of one thread, for one sequence.
type worker[F tensor.Float] struct {
	panel *tensor.Panels[F] // one panel of a weight gradient
	dn    nn.Matrix[F]      // [T, C]: gradient of a normed input
	dm    nn.Matrix[F]      // [T, H·D]: gradient of a mixer's output
	dh    nn.Matrix[F]      // gradient inside the feed-forward network
	heads nn.AttentionScratch[F]
	mix   mixScratch[F]
}

// NewPass allocates a pass of B sequences of T positions. If p is nil, it uses
// one thread. The pass is for the tensors that train now: Freeze invalidates
// it.
func (m *Model[F]) NewPass(p *pool.Pool, B, T int) *Pass[F] {
	c, n := m.Config, B*T
	s := &Pass[F]{B: B, T: T, model: m, pool: p, entry: make([]int32, n), loss: make([]float64, B)}
	s.rotation = rotation[F](c, T)
	s.raw, s.rawR = nn.NewMatrix[F](n, c.Dim), make([]F, n)
	for range 2*c.Layers + 1 {
		s.x, s.dx = append(s.x, nn.NewMatrix[F](n, c.Dim)), append(s.dx, nn.NewMatrix[F](n, c.Dim))
	}
	for l := range c.Layers {
		s.layers = append(s.layers, s.newLayer(l))
	}
	s.final, s.finalR = nn.NewMatrix[F](n, c.Dim), make([]F, n)
	logits := nn.NewMatrix[F](n, c.Vocab) // the loss replaces them by their gradient
	s.head = nn.NewProduct(m.head, s.final, logits, logits)
	for range B {
		s.spread = append(s.spread, m.Spread())
	}
	threads := 1
	if p != nil {
		threads = p.Threads()
	}
	for range threads {
		s.works = append(s.works, s.newWorker())
	}
	s.plan()
	s.run.train, s.run.eval, s.run.states, s.run.columns = s.trainSequences, s.evalSequences, s.stateSequences, s.gradColumns
	s.run.losses, s.run.weighted = s.lossSequences, s.weightedSequences
	return s
}

func (p *Pass[F]) newLayer(l int) layer[F] {
	c, b, n := p.model.Config, &p.model.blocks[l], p.B*p.T
	y := layer[F]{norm1: nn.NewMatrix[F](n, c.Dim), norm2: nn.NewMatrix[F](n, c.Dim), r1: make([]F, n), r2: make([]F, n)}
	mixed := nn.NewMatrix[F](n, c.Heads*c.HeadDim)
	if b.mix != nil {
		y.mix = newTimeMixing(c, b.mix, y.norm1, mixed)
	} else {
		y.attn = nn.NewAttentionPass(b.attn, p.rotation, y.norm1, mixed)
	}
	y.out = nn.NewProduct(b.out, mixed, p.x[2*l+1], p.dx[2*l+1])
	y.ffn = nn.NewFFNPass(b.ffn, y.norm2, p.x[2*l+2], p.dx[2*l+2])
	return y
}

func (p *Pass[F]) newWorker() worker[F] {
	c := p.model.Config
	w := worker[F]{panel: p.model.GradientScratch(), dn: nn.NewMatrix[F](p.T, c.Dim), dm: nn.NewMatrix[F](p.T, c.Heads*c.HeadDim), dh: nn.NewFFNScratch[F](c.Hidden, p.T)}
	if c.Mixer == RWKV {
		w.mix = newMixScratch[F](c, p.T)
	} else {
		w.heads = nn.NewAttentionScratch[F](c.HeadDim, p.T)
	}
	return w
}

// plan determines where the backward pass ends and cuts the weight gradients.
func (p *Pass[F]) plan() {
	m := p.model
	p.lowest = 2 * len(m.blocks)
	for _, t := range m.Tensors() {
		if t.Grad == nil {
			continue
		}
		p.lowest = min(p.lowest, m.half(t))
	}
	all := []*nn.Product[F]{&p.head}
	for l := range p.layers {
		y := &p.layers[l]
		all = append(all, &y.attn.Product, &y.mix.r, &y.mix.k, &y.mix.v, &y.out, &y.ffn.UpProduct, &y.ffn.DownProduct)
	}
	p.grads = nn.NewGradients(all...)
}

// half returns the half block of t: 2l for the mixer, 2l+1 for the feed-forward
// network, -1 below the blocks and 2·Layers above them.
func (m *Model[F]) half(t *Tensor[F]) int {
	switch {
	case t == m.embed || t == m.embedNorm.Gain:
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

// rotation tabulates the angles of T positions.
func rotation[F tensor.Float](c Config, T int) *nn.Rotation[F] {
	return nn.NewRotation[F](c.RopeBase, c.HeadDim, T, c.Rope == RopePairs)
}

// sequence returns the sequence at the positions [lo, hi).
func (p *Pass[F]) sequence(lo, hi int) nn.Sequence {
	s := nn.Sequence{Lo: lo, Hi: hi}
	if p.batch.Starts != nil {
		s.Starts = p.batch.Starts[lo:hi]
	}
	return s
}
