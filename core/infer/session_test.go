package infer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"mm-abi.org/mm/core/infer/sample"
)

// TestSessionsTakeTurns: concurrent sessions of one model do not interfere.
func TestSessionsTakeTurns(t *testing.T) {
	cfg, weights := stories(t)
	m, err := New(cfg, weights, Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	text := func(seed uint64) []int32 {
		s, err := m.NewSession(SessionOptions{Context: 128})
		if err != nil {
			t.Error(err)
			return nil
		}
		if _, err := s.Prompt(t.Context(), []int32{1, int32(400 + seed)}); err != nil {
			t.Error(err)
			return nil
		}
		var ids []int32
		_, err = s.Generate(t.Context(), GenerateOptions{Sampler: sample.Options{Temperature: 1, Seed: seed}}, func(k Token) error {
			ids = append(ids, k.ID)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return ids
	}
	var alone, together [4][]int32
	for i := range alone {
		alone[i] = text(uint64(i))
	}
	var wg sync.WaitGroup
	for i := range together {
		wg.Go(func() { together[i] = text(uint64(i)) })
	}
	wg.Wait()
	for i := range alone {
		if !slices.Equal(alone[i], together[i]) {
			t.Errorf("session %d writes %v alone and %v among others", i, alone[i], together[i])
		}
	}
}

// TestCancel: an interrupted Feed leaves the session unchanged.
func TestCancel(t *testing.T) {
	cfg, weights := stories(t)
	s := open(t, cfg, weights, SessionOptions{Context: 2000})
	if err := s.Feed(t.Context(), []int32{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Feed(ended, []int32{4}); !errors.Is(err, context.Canceled) || s.Len() != 3 {
		t.Errorf("%d positions, %v", s.Len(), err)
	}
	short, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
	defer cancel()
	if err := s.Feed(short, make([]int32, 1900)); !errors.Is(err, context.DeadlineExceeded) || s.Len() != 3 {
		t.Errorf("%d positions, %v", s.Len(), err)
	}
	fresh := open(t, cfg, weights, SessionOptions{})
	if err := errors.Join(s.Feed(t.Context(), []int32{5}), fresh.Feed(t.Context(), []int32{1, 2, 3, 5})); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Logits(), fresh.Logits()) {
		t.Error("the text goes on differently")
	}
}

// TestDecodeAllocations: decoding a token does not allocate.
func TestDecodeAllocations(t *testing.T) {
	cfg, weights := stories(t)
	s := open(t, cfg, weights, SessionOptions{})
	if err := s.Feed(t.Context(), make([]int32, 20)); err != nil {
		t.Fatal(err)
	}
	ctx, token := t.Context(), []int32{7}
	n := testing.AllocsPerRun(50, func() {
		if s.Len() == 200 {
			s.Truncate(20)
		}
		if err := s.Feed(ctx, token); err != nil {
			t.Fatal(err)
		}
	})
	if n > 1 { // the token slice grows now and then
		t.Errorf("%v allocations a token", n)
	}
}

// TestRecall: the logits after a Truncate equal those of a fresh session.
func TestRecall(t *testing.T) {
	cfg := tiny("llama", 10)
	weights := random(cfg, 5)
	for _, kv := range []string{"f32", "f16", "q8_0"} {
		s, fresh := open(t, cfg, weights, SessionOptions{KV: kv}), open(t, cfg, weights, SessionOptions{KV: kv})
		if err := s.Recall(t.Context()); !errors.Is(err, ErrNoLogits) {
			t.Errorf("an empty session: %v", err)
		}
		if err := errors.Join(s.Feed(t.Context(), []int32{1, 2, 3, 4}), fresh.Feed(t.Context(), []int32{1, 2, 3})); err != nil {
			t.Fatal(err)
		}
		s.Truncate(3)
		ended, end := context.WithCancel(t.Context())
		end()
		if err := s.Recall(ended); !errors.Is(err, context.Canceled) || s.Len() != 3 {
			t.Errorf("cancelled: %v, %d positions", err, s.Len())
		}
		if err := s.Recall(t.Context()); err != nil || !slices.Equal(s.Logits(), fresh.Logits()) {
			t.Errorf("%s: %v, or other logits", kv, err)
		}
		if err := errors.Join(s.Feed(t.Context(), []int32{5}), fresh.Feed(t.Context(), []int32{5})); err != nil || !slices.Equal(s.Logits(), fresh.Logits()) {
			t.Errorf("%s: %v, or other logits behind it", kv, err)
		}
		if err := s.FeedVectors(t.Context(), make([]float32, 2*cfg.Width)); err != nil {
			t.Fatal(err)
		}
		s.Truncate(5)
		if err := s.Recall(t.Context()); !errors.Is(err, ErrNoLogits) {
			t.Errorf("a vector: %v", err)
		}
	}
}
