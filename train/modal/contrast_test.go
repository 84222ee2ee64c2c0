package modal

import (
	"context"
	"math"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

// The gradients of the contrast agree with central differences; inputs without a
// caption have none, and those with equal captions are pairs.
func TestContrast(t *testing.T) {
	t.Parallel()
	workers := pool.New(1)
	defer workers.Close()
	r := encoding().WithDefaults()
	r.Modalities[0] = seeing(16)
	r.Core.Model = &llm.Config{Vocab: 1024, Dim: 16, Layers: 1, Heads: 2, Context: 64, Tied: true}
	p, err := newPerception(context.Background(), r, ".", workers)
	if err != nil {
		t.Fatal(err)
	}
	nn.FillNormal(p.model.Tensor("token_embd.weight").Data, nn.NewRandom(5), 1)
	const rows, C, weight = 2, 16, 0.5
	items := []item{{caption: "a red circle"}, {}, {caption: "a bar chart"}, {caption: "a red circle"}}
	x := make([]float32, len(items)*rows*C)
	nn.FillNormal(x, nn.NewRandom(6), 1)
	row := func(r int) []float32 { return x[r*C : (r+1)*C] }
	loss := func() float64 { return p.contrast(items, rows, C, row, make([]float32, len(x)), 0) }
	grads := make([]float32, len(x))
	before := p.contrast(items, rows, C, row, grads, weight)
	for i := range x {
		const h = 1e-3
		old := x[i]
		x[i] = old + h
		up := loss()
		x[i] = old - h
		down := loss()
		x[i] = old
		if want := weight * (up - down) / (2 * h); math.Abs(want-float64(grads[i])) > 2e-3*max(1, math.Abs(want)) {
			t.Errorf("gradient %d: got %.5f, want %.5f", i, grads[i], want)
		}
		if i/C/rows == 1 && grads[i] != 0 {
			t.Errorf("input without a caption has the gradient %v", grads[i])
		}
	}
	items[3].caption = "a blue square"
	if after := loss(); math.Abs(after-before) < 1e-3 {
		t.Errorf("loss %.4f with equal captions and without", after)
	}
	if v := p.contrast(items[1:2], rows, C, row, grads, weight); v != 0 {
		t.Errorf("loss %v without a caption", v)
	}
}

// A weight outside the range is a fault.
func TestContrastWeight(t *testing.T) {
	for v, ok := range map[float64]bool{0: true, 1000: true, -1: false, 1001: false, math.NaN(): false} {
		r := encoding()
		r.Data.Contrast = v
		if err := r.Validate(); (err == nil) != ok {
			t.Errorf("contrast %v: %v", v, err)
		}
	}
}
