package llm

import (
	"fmt"

	"mm-abi.org/mm/train/nn"
)

// GradcheckOptions configures a gradient check. The zero value checks 40
// elements of every tensor over two sequences of nine positions.
type GradcheckOptions struct {
	Seed    uint64
	B, T    int   // sequences and positions; 0 means 2 and 9
	Entries int   // elements probed of each tensor; 0 means 40
	LoRA    *LoRA // adapters to check instead of the weights
}

// Gradcheck compares every gradient of a model of shape c with central
// differences of its loss, in float64. The batch contains documents that end
// inside a sequence, positions without a target and injected embeddings. Shapes
// far above a few thousand weights take long: use a small one of the same kind.
func Gradcheck(c Config, opt GradcheckOptions) ([]nn.Comparison, error) {
	g, err := newChecker(c, opt)
	if err != nil {
		return nil, err
	}
	if _, err := g.pass.Train(g.batch, g.scale, false); err != nil {
		return nil, err
	}
	var all []nn.Comparison
	for _, t := range g.model.Tensors() {
		if t.Grad != nil {
			all = append(all, nn.Compare(t.Name, t.Data, t.Grad, g.loss, g.entries))
		}
	}
	return append(all, nn.Compare("embeds", g.batch.Embeds, g.batch.EmbedGrads, g.loss, g.entries)), nil
}

// checker is a model, a batch and the loss on it.
type checker struct {
	model   *Model[float64]
	pass    *Pass[float64]
	batch   Batch[float64]
	scale   float64
	entries int
	random  *nn.Random
}

func newChecker(c Config, opt GradcheckOptions) (*checker, error) {
	m, err := New[float64](c)
	if err != nil {
		return nil, err
	}
	if opt.B == 0 {
		opt.B = 2
	}
	if opt.T == 0 {
		opt.T = 9
	}
	if opt.Entries == 0 {
		opt.Entries = 40
	}
	if opt.B < 1 || opt.T < 2 || opt.Entries < 1 {
		return nil, fmt.Errorf("invalid gradient check of %d sequences of %d positions, %d entries", opt.B, opt.T, opt.Entries)
	}
	if opt.LoRA != nil {
		if err := m.Adapt(*opt.LoRA, opt.Seed); err != nil {
			return nil, err
		}
	}
	g := &checker{model: m, entries: opt.Entries, random: nn.NewRandom(opt.Seed)}
	for _, t := range m.Tensors() {
		g.draw(t)
	}
	m.Refresh(nil)
	g.pass = m.NewPass(nil, opt.B, opt.T)
	g.batch = g.randomBatch(opt.B, opt.T)
	g.scale = 1 / float64(max(Count(g.batch.Targets), 1))
	return g, nil
}

// draw draws weights without symmetry, so that every gradient is nonzero: gains
// and mixing weights off their start, no zero matrix.
func (g *checker) draw(t *Tensor[float64]) {
	switch {
	case !t.Matrix():
		for i := range t.Data {
			t.Data[i] = 0.6 + 0.25*g.random.Normal()
		}
	default:
		nn.FillNormal(t.Data, g.random, 1.5*invSqrt(t.Shape[1]))
	}
}

// randomBatch draws tokens and documents of random length, with some positions
// without a target and one injected row per sequence.
func (g *checker) randomBatch(B, T int) Batch[float64] {
	c := g.model.Config
	b := Batch[float64]{Tokens: make([]int32, B*T), Targets: make([]int32, B*T), Starts: make([]int32, B*T)}
	for s := range B {
		start := 0
		for t := range T {
			if t > 0 && g.random.Uniform() < 0.2 {
				start = t
			}
			i := s*T + t
			b.Tokens[i], b.Targets[i], b.Starts[i] = g.token(c), g.token(c), int32(start)
			if g.random.Uniform() < 0.15 {
				b.Targets[i] = -1
			}
		}
		b.Rows = append(b.Rows, int32(s*T+T/2))
	}
	b.Embeds, b.EmbedGrads = make([]float64, len(b.Rows)*c.Dim), make([]float64, len(b.Rows)*c.Dim)
	nn.FillNormal(b.Embeds, g.random, 1)
	return b
}

func (g *checker) token(c Config) int32 { return int32(g.random.Uniform() * float64(c.Vocab)) }

// loss returns the mean loss with the current weights.
func (g *checker) loss() float64 {
	g.model.Stale()
	g.model.Refresh(nil)
	sum, err := g.pass.Loss(g.batch)
	if err != nil {
		panic("llm: checked batch refused: " + err.Error())
	}
	return sum * g.scale
}
