package llm

import (
	"math"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/nn"
)

// curved is a loss of the sums of the sequences' losses that is not linear, and
// its derivatives: -log σ((n1 - n0)/8) + n1²/100.
func curved(nats, factors []float64) float64 {
	d := (nats[1] - nats[0]) / 8
	s := 1 / (1 + math.Exp(d))
	factors[0], factors[1] = s/8, -s/8+nats[1]/50
	return math.Log1p(math.Exp(-d)) + nats[1]*nats[1]/100
}

// The gradient of a loss of the sequences' sums agrees with central differences
// in float64, for every variant, for weights and for adapters.
func TestGradcheckWeighted(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: a second gradient check of every variant")
	}
	for name, c := range variants() {
		for _, lora := range []*LoRA{nil, {Rank: 3, Alpha: 5}} {
			g, err := newChecker(c, GradcheckOptions{Seed: 5, B: 2, T: 9, Entries: 20, LoRA: lora})
			if err != nil {
				t.Fatal(err)
			}
			g.batch.EmbedGrads = nil
			factors := make([]float64, 2)
			if err := g.pass.TrainWeighted(g.batch, func(nats, factors []float64) { curved(nats, factors) }, false); err != nil {
				t.Fatal(err)
			}
			nats := make([]float64, 2)
			loss := func() float64 {
				g.model.Stale()
				g.model.Refresh(nil)
				if err := g.pass.Losses(g.batch, nats); err != nil {
					t.Fatal(err)
				}
				return curved(nats, factors)
			}
			for _, w := range g.model.Tensors() {
				if w.Grad == nil {
					continue
				}
				if r := nn.Compare(w.Name, w.Data, w.Grad, loss, g.entries); !(r.Error <= 1e-6) || r.Norm == 0 {
					t.Errorf("%s: %-34s relative error %.2g, norm %.2g", name, r.Tensor, r.Error, r.Norm)
				}
			}
		}
	}
}

// Equal factors give the gradients of Train, bit for bit on any number of
// threads, and the last call's gradients can be added to.
func TestTrainWeighted(t *testing.T) {
	c := Config{Vocab: 40, Dim: 16, Layers: 2, Heads: 2, Hidden: 32, Context: 16, Tied: true}
	m, err := New[float32](c)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Init(Init{Seed: 3}); err != nil {
		t.Fatal(err)
	}
	workers := pool.New(3)
	defer workers.Close()
	m.Refresh(nil)
	r := nn.NewRandom(4)
	b := Batch[float32]{Tokens: make([]int32, 4*12), Targets: make([]int32, 4*12)}
	for i := range b.Tokens {
		b.Tokens[i], b.Targets[i] = int32(r.Uniform()*40), int32(r.Uniform()*50)-10
		if b.Targets[i] < 0 {
			b.Targets[i] = -1
		}
	}
	grads := func(run func(p *Pass[float32]) error, p *pool.Pool) []float32 {
		if err := run(m.NewPass(p, 4, 12)); err != nil {
			t.Fatal(err)
		}
		var all []float32
		for _, w := range m.Tensors() {
			all = append(all, w.Grad...)
		}
		return all
	}
	var sum float64
	want := grads(func(p *Pass[float32]) error { loss, err := p.Train(b, 0.25, false); sum = loss; return err }, nil)
	weighted := func(factor float64, n int) func(p *Pass[float32]) error {
		return func(p *Pass[float32]) error {
			for i := range n {
				err := p.TrainWeighted(b, func(nats, factors []float64) {
					var got float64
					for s := range factors {
						factors[s] = factor
						got += nats[s]
					}
					if math.Abs(got-sum) > 1e-9 {
						t.Errorf("loss %v, want %v", got, sum)
					}
				}, i > 0)
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	one := grads(weighted(0.25, 1), nil)
	many := grads(weighted(0.25, 1), workers)
	twice := grads(weighted(0.125, 2), nil)
	for i := range want {
		if one[i] != many[i] {
			t.Fatalf("gradient %d: %v on one thread, %v on three", i, one[i], many[i])
		}
		if math.Abs(float64(one[i]-want[i])) > 1e-6 || math.Abs(float64(twice[i]-want[i])) > 1e-6 {
			t.Fatalf("gradient %d: %v and %v, want %v", i, one[i], twice[i], want[i])
		}
	}
	p := m.NewPass(nil, 4, 12)
	if p.Losses(b, make([]float64, 3)) == nil {
		t.Error("too few losses are accepted")
	}
	if p.TrainWeighted(Batch[float32]{Tokens: b.Tokens}, nil, false) == nil || p.TrainWeighted(Batch[float32]{EmbedGrads: []float32{}}, nil, false) == nil {
		t.Error("a batch without targets, or with gradients of rows, is accepted")
	}
}
