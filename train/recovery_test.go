package train

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

// The two sides are what Evaluate measures without the adapters and with them, and
// the adapters are the same afterwards.
func TestRecover(t *testing.T) {
	m, tok, err := OpenBase("../catalog/core-llm/core-llm.gguf")
	if err != nil {
		t.Fatal(err)
	}
	workers := pool.New(2)
	defer workers.Close()
	held, err := dataset.Encode([]dataset.Document{{Text: strings.Repeat("Once upon a time there was a red ball. ", 12)}}, tok, dataset.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const T = 16
	m.Refresh(workers)
	before, err := Evaluate(m, workers, held, T, 0, tok)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Recover(m, workers, held, T, 0, tok); err == nil {
		t.Error("a model without adapters is compared")
	}
	if err := m.Adapt(llm.LoRA{Rank: 2}, 1); err != nil {
		t.Fatal(err)
	}
	var kept []float32
	for i, w := range m.Adapters() {
		nn.FillNormal(w.Data, nn.NewRandom(uint64(i)), 0.2)
		kept = append(kept, w.Data...)
	}
	m.Stale()
	m.Refresh(workers)
	after, err := Evaluate(m, workers, held, T, 0, tok)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Recover(m, workers, held, T, 0, tok)
	if err != nil || math.Abs(r.Before-before.BitsPerByte) > 1e-9 || math.Abs(r.After-after.BitsPerByte) > 1e-9 || r.Before == r.After {
		t.Errorf("got %+v, %v; want %.6f to %.6f", r, err, before.BitsPerByte, after.BitsPerByte)
	}
	var out Measured
	if err := out.adapted(m, workers, &Corpus{Held: held, Tokenizer: tok}, T, 0); err != nil || out.Adapters == nil || *out.Adapters != r {
		t.Errorf("got %+v, %v, want %+v", out.Adapters, err, r)
	}
	if e := out.Evaluation; e.Predictions != after.Predictions || e.Bytes != after.Bytes || math.Abs(e.Loss-after.Loss) > 1e-12*after.Loss || math.Abs(e.BitsPerByte-after.BitsPerByte) > 1e-12 {
		t.Errorf("one measurement: got %+v, want %+v", e, after)
	}
	var now []float32
	for _, w := range m.Adapters() {
		now = append(now, w.Data...)
	}
	if d := cmp.Diff(kept, now); d != "" {
		t.Errorf("the adapters changed: %s", d)
	}
	if again, err := Evaluate(m, workers, held, T, 0, tok); err != nil || !cmp.Equal(again, after) {
		t.Errorf("got %+v afterwards, %v; want %+v", again, err, after)
	}
	if _, err := Recover(m, workers, nil, T, 0, tok); err != errNoHeld {
		t.Errorf("without text: %v", err)
	}
	if err := out.adapted(m, workers, &Corpus{Tokenizer: tok}, T, 0); err != errNoHeld {
		t.Errorf("one measurement without text: %v", err)
	}
	if _, err := Recover(m, workers, held, T, 0, nil); err == nil {
		t.Error("without a tokenizer there are bytes")
	}
}

// The interval is that of the ratio of sums, and narrow where every window changes
// alike.
func TestPaired(t *testing.T) {
	bytes := []float64{10, 20, 30}
	scale := func(v float64) (out []float64) {
		for _, n := range bytes {
			out = append(out, v*n*math.Ln2)
		}
		return out
	}
	r, err := paired(scale(2), scale(1.5), bytes)
	if err != nil || math.Abs(r.Before-2) > 1e-12 || math.Abs(r.After-1.5) > 1e-12 || math.Abs(r.Low+0.5) > 1e-12 || math.Abs(r.High+0.5) > 1e-12 {
		t.Errorf("got %+v, %v; want 2 to 1.5 without a spread", r, err)
	}
	after := scale(1.5)
	after[0] += 3 * math.Ln2 // of 60 bytes: 0.05 bits more
	r, err = paired(scale(2), after, bytes)
	// Deviations from d·bytes, in bits: 2.5, -1, -1.5.
	half := 1.96 * math.Sqrt((6.25+1+2.25)*1.5) / 60
	if err != nil || math.Abs(r.Low-(-0.45-half)) > 1e-9 || math.Abs(r.High-(-0.45+half)) > 1e-9 {
		t.Errorf("got %+v, %v; want -0.45 ± %.4f", r, err, half)
	}
	if _, err := paired([]float64{1}, []float64{1}, []float64{1}); err == nil {
		t.Error("one window has an interval")
	}
}
