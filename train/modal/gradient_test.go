package modal

import (
	"context"
	"math"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

// The gradient of the encoder through the projector and the core agrees with
// central differences of the same float32 pass, with a coarse tolerance.
func TestGradient(t *testing.T) {
	t.Parallel()
	workers := pool.New(2)
	defer workers.Close()
	r := encoding().WithDefaults()
	r.Modalities[0] = seeing(16)
	r.Core.Model = &llm.Config{Vocab: 1024, Dim: 16, Layers: 1, Heads: 2, Context: 64, Tied: true}
	p, err := newPerception(context.Background(), r, ".", workers)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.model.Init(llm.Init{Seed: 4, Residual: "plain"}); err != nil {
		t.Fatal(err)
	}
	loss := func() float64 {
		p.model.Stale()
		p.Refresh()
		if err := p.look(p.batches[0]); err != nil {
			t.Fatal(err)
		}
		v, err := p.pass.Loss(p.batches[0].Batch)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if _, err := p.Batches(1); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*part{p.senses[0].enc, p.senses[0].proj} {
		for _, w := range s.tensors {
			nn.FillNormal(w.Data, nn.NewRandom(uint64(len(w.Data))), 0.4)
		}
	}
	loss()
	if _, err := p.Pass(0, 1, false); err != nil {
		t.Fatal(err)
	}
	const h = 1e-2
	for _, w := range append(p.senses[0].enc.tensors, p.senses[0].proj.tensors...) {
		grad := append([]float32(nil), w.Grad...)
		var diff, norm float64
		for i := 0; i < len(w.Data); i += 1 + len(w.Data)/20 {
			old := w.Data[i]
			w.Data[i] = old + h
			up := loss()
			w.Data[i] = old - h
			down := loss()
			w.Data[i] = old
			d := (up - down) / (2 * h)
			diff += (d - float64(grad[i])) * (d - float64(grad[i]))
			norm += d * d
		}
		if e := math.Sqrt(diff / norm); !(e < 0.03) {
			t.Errorf("%s: relative error %.3g", w.Name, e)
		}
	}
}
