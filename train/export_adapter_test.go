package train

import (
	"bytes"
	"math"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/infer/adapter"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
)

// The exported base with the exported adapter equals the exported merged model,
// for both rotations.
func TestExportAdapter(t *testing.T) {
	for _, rope := range []llm.Rope{llm.RopePairs, llm.RopeHalf} {
		lora := llm.LoRA{Rank: 3, Alpha: 7}
		m, err := llm.New[float32](llm.Config{Vocab: 20, Dim: 16, Layers: 2, Heads: 4, KVHeads: 2, Context: 8, Rope: rope})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Init(llm.Init{Seed: 1, Residual: "plain"}); err != nil {
			t.Fatal(err)
		}
		base := exported(t, m)
		if err := ExportAdapter(&bytes.Buffer{}, m, lora, nil); err == nil {
			t.Error("exported an adapter of a model without adapters")
		}
		if err := m.Adapt(lora, 2); err != nil {
			t.Fatal(err)
		}
		for i, w := range m.Adapters() {
			nn.FillNormal(w.Data, nn.NewRandom(uint64(9+i)), 0.3)
		}
		var file bytes.Buffer
		if err := ExportAdapter(&file, m, lora, nil); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Parse(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		changes, err := adapter.FromGGUF(f, adapter.Model{Arch: "llama", Heads: 4, KVHeads: 2, HeadDim: 4, Interleaved: true})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(changes); n != 2*7 {
			t.Errorf("%d matrices change, not 14", n)
		}
		m.Merge()
		merged := exported(t, m)
		for name, want := range merged {
			got := base[name]
			if c, ok := changes[name]; ok {
				c.Merge(got)
			}
			for i := range want {
				if math.Abs(float64(got[i]-want[i])) > 1e-5 {
					t.Fatalf("rope %s: %s[%d] is %v, merged %v", rope, name, i, got[i], want[i])
				}
			}
		}
	}
}

// exported returns the tensors of m's GGUF file.
func exported(t *testing.T, m *llm.Model[float32]) map[string][]float32 {
	t.Helper()
	var file bytes.Buffer
	if err := ExportGGUF(&file, m, nil, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]float32{}
	for _, w := range f.Tensors {
		x := make([]float32, w.Elements())
		quant.Dequantize(x, w.Data, w.Type)
		out[w.Name] = x
	}
	return out
}

// Wilson's interval has the known values.
func TestInterval(t *testing.T) {
	for _, c := range []struct {
		right, n  int
		low, high float64
	}{{0, 10, 0, 0.2775}, {10, 10, 0.7225, 1}, {450, 500, 0.8706, 0.9234}, {0, 0, 0, 1}} {
		low, high := Score{Right: c.right, N: c.n}.Interval()
		if math.Abs(low-c.low) > 1e-4 || math.Abs(high-c.high) > 1e-4 {
			t.Errorf("%d of %d: %.4f to %.4f, want %v to %v", c.right, c.n, low, high, c.low, c.high)
		}
	}
}
