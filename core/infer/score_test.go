package infer

import (
	"errors"
	"math"
	"testing"
)

func TestScore(t *testing.T) {
	cfg := tiny("llama", 10)
	cfg.Context = 200
	weights := random(cfg, 1)
	s, one := open(t, cfg, weights, SessionOptions{}), open(t, cfg, weights, SessionOptions{})
	tokens := make([]int32, 80)
	for i := range tokens {
		tokens[i] = int32(i * i % 10)
	}
	for round := range 2 { // the second round continues the first
		got, err := s.Score(t.Context(), tokens)
		if err != nil {
			t.Fatal(err)
		}
		for i, token := range tokens {
			want := 0.0
			if logits := one.Logits(); logits != nil {
				var sum float64
				for _, v := range logits {
					sum += math.Exp(float64(v))
				}
				want = float64(logits[token]) - math.Log(sum)
			}
			if math.Abs(got[i]-want) > 1e-5 {
				t.Fatalf("round %d: token %d scores %v, want %v", round, i, got[i], want)
			}
			if err := one.Feed(t.Context(), []int32{token}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Score(t.Context(), tokens); !errors.Is(err, ErrContext) {
		t.Errorf("too many tokens: %v", err)
	}
	if _, err := s.Score(t.Context(), []int32{10}); err == nil {
		t.Error("a token beyond the vocabulary is scored")
	}
	if s.Len() != 160 || s.Logits() == nil {
		t.Errorf("errors left %d positions", s.Len())
	}
}
