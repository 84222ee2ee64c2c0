package engines_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/runtimes"
)

// TestCrowd: with others at the same time, a sequence draws the ids that it draws alone: with an
// adapter, a draft core or lookup, a grammar, at any temperature, for each type of keys and
// values. A canceled one ends and disturbs no other.
func TestCrowd(t *testing.T) {
	odd := &runtimes.Grammar{States: []runtimes.State{{Edges: []runtimes.Edge{{From: 41, To: 41}, {From: 43, To: 60}}, Else: runtimes.Nowhere}}}
	type request struct {
		feed []int32
		opt  runtimes.Generation
	}
	var all []request
	for i := range 12 {
		r := request{feed: slices.Concat(prompt, slices.Repeat([]int32{40, 50, 60, 61 + int32(i%3)}, 1+7*(i%4))), opt: runtimes.Generation{MaxTokens: 10 + 3*i}}
		switch i % 3 {
		case 1:
			r.opt.Options = sample.Options{Temperature: 0.9, Seed: uint64(i)}
		case 2:
			r.opt.Allow = odd
		}
		all = append(all, r)
	}
	for _, kv := range []abi.DType{abi.Int8, abi.FP16, abi.FP32} {
		for _, drafts := range []bool{false, true} {
			b := core(t)
			b.KV = kv
			b.Adapters = []runtimes.Adapter{{Bundle: module(t, abi.Adapter, 64), Scale: 1}}
			if drafts {
				d := module(t, abi.DraftCore, 32)
				b.Draft, b.DraftTokens = &d, 3
			}
			m := open(t, b, runtimes.Limits{Threads: 1})
			run := func(ctx context.Context, r request) (ids []int32, err error) {
				s, err := m.NewSequence(ctx, runtimes.SequenceOptions{})
				if err != nil {
					return nil, err
				}
				defer s.Close()
				if err := s.Feed(ctx, runtimes.Positions{Tokens: r.feed}); err != nil {
					return nil, err
				}
				_, err = s.Generate(ctx, r.opt, func(id int32) error { ids = append(ids, id); return nil })
				return ids, err
			}
			want := make([][]int32, len(all))
			for i, r := range all {
				var err error
				if want[i], err = run(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			var wg sync.WaitGroup
			errs := make(chan error, 3*len(all))
			for i := range 3 * len(all) {
				wg.Go(func() {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if i%4 == 3 {
						time.AfterFunc(time.Duration(i)*time.Millisecond/2, cancel)
					}
					time.Sleep(time.Duration(i*7%11) * time.Millisecond)
					got, err := run(ctx, all[i%len(all)])
					own := want[i%len(all)]
					if err != nil && ctx.Err() == nil || err == nil && !slices.Equal(got, own) || !slices.Equal(got, own[:min(len(got), len(own))]) {
						errs <- fmt.Errorf("%s, draft %v: request %d: got %v, want %v, %w", kv, drafts, i, got, own, err)
					}
				})
			}
			wg.Wait()
			close(errs)
			for err := range errs {
				t.Error(err)
			}
		}
	}
}
