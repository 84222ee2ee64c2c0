package infer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"mm-abi.org/mm/core/infer/sample"
)

// request is a text and the options of its continuation.
type request struct {
	kv     string
	prompt []int32
	opt    GenerateOptions
}

// requests returns n different requests: with long and short prompts, common
// beginnings, at several temperatures, with masks, forced tokens and lookup.
func requests(n, vocab int) []request {
	out := make([]request, n)
	for i := range out {
		r := &out[i]
		r.kv = []string{"f16", "q8_0", "f16", "f32"}[i%4]
		r.prompt = append(draw(60, vocab)[:(i%3)*30], draw(1+(i*37)%90, vocab)...)
		if i%5 == 0 {
			r.prompt = append(r.prompt, draw(300, vocab)...)
		}
		r.opt = GenerateOptions{MaxTokens: 5 + i%20, Lookup: i%2 == 0, AlwaysDraft: i%8 == 0}
		if i%3 == 1 {
			r.opt.Sampler = sample.Options{Temperature: 0.8, Seed: uint64(i)}
		}
		if i%4 == 2 { // every other token
			r.opt.Mask = func(_ []int32, logits []float32) error {
				for t := i % 2; t < len(logits); t += 2 {
					logits[t] = float32(math.Inf(-1))
				}
				return nil
			}
		}
		if i%7 == 3 {
			r.opt.Forced = func(history []int32) []int32 {
				if len(history)%5 == 0 {
					return []int32{3, 4, 5}
				}
				return nil
			}
		}
	}
	return out
}

// run reads the prompt of a request in a new session and returns the tokens.
func (r *request) run(ctx context.Context, m *Model, pause func()) ([]int32, error) {
	s, err := m.NewSession(SessionOptions{KV: r.kv, Context: 600})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := s.Feed(ctx, r.prompt); err != nil {
		return nil, err
	}
	var out []int32
	_, err = s.Generate(ctx, r.opt, func(t Token) error {
		out = append(out, t.ID)
		pause()
		return nil
	})
	return out, err
}

// TestCrowd: sessions that arrive, leave and are canceled at random draw the
// tokens that each draws alone; a cancellation ends its session only.
func TestCrowd(t *testing.T) {
	for _, name := range []string{"llama", "gemma3", "qwen3moe"} {
		cfg := small(name)
		cfg.Context = 1024
		weights := weightsOf(cfg, 1)
		m, err := New(cfg, weights, Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		all := requests(24, cfg.Vocab)
		want := make([][]int32, len(all))
		for i := range all {
			if want[i], err = all[i].run(t.Context(), m, func() {}); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		errs := make(chan error, 2*len(all))
		for i := range 2 * len(all) {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), 1))
				r, own := &all[i%len(all)], want[i%len(all)]
				time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%3 == 2 {
					time.AfterFunc(time.Duration(rng.IntN(30))*time.Millisecond, cancel)
				}
				got, err := r.run(ctx, m, func() {
					if rng.IntN(8) == 0 {
						time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
					}
				})
				canceled := i%3 == 2 && errors.Is(err, context.Canceled)
				if err != nil && !canceled || !slices.Equal(got, own[:min(len(got), len(own))]) || err == nil && len(got) != len(own) {
					errs <- fmt.Errorf("%s: request %d: got %v, %v, want %v", name, i, got, err, own)
				}
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			t.Error(err)
		}
		q := &m.schedule
		if q.led || len(q.pending) > 0 || len(q.writers) > 0 || q.away != 0 || q.late != 0 {
			t.Errorf("%s: the schedule is not empty: %+v", name, q)
		}
	}
}
