package infer

import (
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/core/gguf/arch"
	"mm-abi.org/mm/core/tensor"
)

// counting counts the rows of each pass.
type counting struct{ rows []int }

func (c *counting) Observe(names []string, _ int, x []float32, cols int) {
	if strings.HasPrefix(names[0], "blk.0.attn_q") || strings.HasPrefix(names[0], "blk.0.attn_k") {
		c.rows = append(c.rows, len(x)/cols)
	}
}

// TestLimits: a pass has up to maxBatch rows, a draft up to maxDraft tokens, a
// message up to maxFaults faults, and the patience of a trade up to mostPassed.
func TestLimits(t *testing.T) {
	cfg := tiny("llama", 10)
	cfg.Context = 2 * maxBatch
	s := open(t, cfg, random(cfg, 1), SessionOptions{})
	for n, want := range map[int]int{maxBatch: 1, maxBatch + 1: 2} {
		var c counting
		s.Truncate(0)
		s.Observe(&c)
		if err := s.Feed(t.Context(), make([]int32, n)); err != nil || len(c.rows) != want || c.rows[0] != maxBatch {
			t.Errorf("%d tokens: passes of %v rows, %v", n, c.rows, err)
		}
	}
	s.Observe(nil)
	draft := open(t, cfg, random(cfg, 2), SessionOptions{})
	for n, want := range map[int]bool{-1: false, 0: true, maxDraft: true, maxDraft + 1: false} {
		s.Truncate(1)
		if err := s.Recall(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Generate(t.Context(), GenerateOptions{MaxTokens: 1, Draft: draft, DraftTokens: n}, func(Token) error { return nil }); (err == nil) != want {
			t.Errorf("maxDraft: %d: %v", n, err)
		}
	}
	for n, want := range map[int]bool{0: true, 1: true, arch.MaxContext: true, arch.MaxContext + 1: false, -1: false} {
		if _, err := s.m.NewSession(SessionOptions{Context: n}); (err == nil) != want {
			t.Errorf("a context of %d: %v", n, err)
		}
	}
	// Every matrix has an unsupported type: more faults than a message holds.
	var faults int
	for layers, want := range map[int]int{1: 0, 6: maxFaults} {
		c := tiny("llama", 10)
		c.Layers = layers
		w := random(c, 1)
		path := write(t, c, w, func(string, []int) tensor.Type { return tensor.F32 })
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range f.Tensors {
			if len(f.Tensors[i].Dims) > 1 {
				f.Tensors[i].Type = tensor.I8
			}
		}
		_, err = CheckFile(f)
		f.Close()
		if err == nil {
			t.Fatal("weights of I8 are accepted")
		}
		if faults = strings.Count(err.Error(), "\n") + 1; faults > maxFaults || want > 0 && faults != want {
			t.Errorf("%d layers: %d faults, limit %d", layers, faults, maxFaults)
		}
	}
	var tr trade
	for range enough + 1 {
		tr.spent(1, time.Millisecond)
	}
	for range 4 * mostPassed {
		for n := range tr.costs {
			if n > 1 {
				tr.costs[n] = cost{1e12, enough}
			}
		}
		tr.since = 0
		tr.choose(lookupTokens, func(n int) float64 { return float64(n) })
	}
	if tr.patience != mostPassed {
		t.Errorf("patience %d, limit %d", tr.patience, mostPassed)
	}
}
