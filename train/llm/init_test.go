package llm

import (
	"fmt"
	"math"
	"testing"
)

// The loss of a new model is that of a uniform guess, at any width and
// vocabulary. With an untied head this holds if the vocabulary is not small
// relative to the width.
func TestFirstLoss(t *testing.T) {
	for _, vocab := range []int{300, 1024, 8192} {
		for _, dim := range []int{64, 256} {
			for _, tied := range []bool{false, true} {
				for _, norm := range []bool{false, true} {
					if !tied && vocab < 4*dim || testing.Short() && vocab > 1024 {
						continue
					}
					c := Config{Vocab: vocab, Dim: dim, Layers: 2, Heads: 4, Context: 64, Tied: tied, EmbedNorm: norm}
					t.Run(fmt.Sprintf("V%d C%d tied=%v norm=%v", vocab, dim, tied, norm), func(t *testing.T) {
						m, err := New[float32](c)
						if err != nil {
							t.Fatal(err)
						}
						if err := m.Init(Init{Seed: 1}); err != nil {
							t.Fatal(err)
						}
						m.Refresh(nil)
						b := randomBatch[float32](c, 2, 64, 3)
						loss, err := m.NewPass(nil, 2, 64).Loss(b)
						if err != nil {
							t.Fatal(err)
						}
						first, want := loss/float64(Count(b.Targets)), math.Log(float64(vocab))
						if math.Abs(first-want) > 0.3 {
							t.Errorf("first loss %.3f, want %.3f of a uniform guess", first, want)
						}
					})
				}
			}
		}
	}
}

// Equal seeds yield equal bits, and the start of a tensor does not depend on
// the start of the others.
func TestInitBits(t *testing.T) {
	c := variants()["plain"]
	draw := func(i Init) *Model[float32] {
		m, err := New[float32](c)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Init(i); err != nil {
			t.Fatal(err)
		}
		return m
	}
	a, b, wide := draw(Init{Seed: 4}), draw(Init{Seed: 4}), draw(Init{Seed: 4, EmbedStd: 2, Residual: "plain"})
	for i, w := range a.Tensors() {
		for j, v := range w.Data {
			if b.Tensors()[i].Data[j] != v {
				t.Fatalf("%s differs between equal seeds", w.Name)
			}
		}
	}
	up, same := a.Tensor("blk.1.ffn_up.weight").Data, wide.Tensor("blk.1.ffn_up.weight").Data
	for j, v := range up {
		if same[j] != v {
			t.Fatal("matrix depends on the start of embedding and residual")
		}
	}
	if a.Tensor("blk.0.ffn_down.weight").Data[0] != 0 || wide.Tensor("blk.0.ffn_down.weight").Data[0] == 0 {
		t.Error("wrong start of residual matrices")
	}
}
