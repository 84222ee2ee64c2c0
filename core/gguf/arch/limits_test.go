package arch

import (
	"strings"
	"testing"
)

// TestLimits has a shape at each limit, and one beyond it.
func TestLimits(t *testing.T) {
	small := func() Shape {
		return Shape{Arch: "qwen3moe", Context: 1, Layers: 1, Width: 1, Heads: 1, KVHeads: 1, HeadDim: 2, Hidden: 1, Vocab: 1, Rope: Rope{Dims: 2, Base: 1}, Experts: 1, ExpertsUsed: 1, ExpertHidden: 1}
	}
	for _, c := range []struct {
		name  string
		limit int
		set   func(s *Shape, n int)
	}{
		{"context length", MaxContext, func(s *Shape, n int) { s.Context = n }},
		{"number of layers", maxLayers, func(s *Shape, n int) { s.Layers = n }},
		{"embedding length", maxWidth, func(s *Shape, n int) { s.Width = n }},
		{"number of heads", maxHeads, func(s *Shape, n int) { s.Heads = n }},
		{"number of key/value heads", maxHeads, func(s *Shape, n int) { s.Heads, s.KVHeads = n, n }},
		{"head size", maxDim, func(s *Shape, n int) { s.HeadDim = n }},
		{"feed forward length", maxHidden, func(s *Shape, n int) { s.Hidden = n }},
		{"vocabulary size", maxVocab, func(s *Shape, n int) { s.Vocab = n }},
		{"number of heads times their size", maxHidden, func(s *Shape, n int) { s.HeadDim, s.Heads, s.KVHeads = 512, n/512+n%512, 1 }},
		{"number of experts", maxExperts, func(s *Shape, n int) { s.Experts = n }},
		{"number of experts used", 1, func(s *Shape, n int) { s.ExpertsUsed = n }},
		{"expert feed forward length", maxHidden, func(s *Shape, n int) { s.ExpertHidden = n }},
	} {
		for n, want := range map[int]bool{c.limit: true, c.limit + 1: false, 0: c.name == "number of experts"} {
			s := small()
			if c.set(&s, n); n == 0 && strings.Contains(c.name, "heads") {
				continue
			}
			if err := s.Check(); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "bad "+c.name+": ") {
				t.Errorf("%s: %d: %v", c.name, n, err)
			}
		}
	}
	var f faults
	for i := range maxFaults {
		if f.full() {
			t.Errorf("full after %d of %d faults", i, maxFaults)
		}
		f.add("fault %d", i)
	}
	if !f.full() {
		t.Errorf("not full after %d faults", maxFaults)
	}
}
