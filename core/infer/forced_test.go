package infer

import (
	"math"
	"slices"
	"testing"
)

// Forced tokens give the same text as a mask that allows nothing else, and
// leave the session in the same state, wherever the text is cut.
func TestForcedIsWhatAMaskGives(t *testing.T) {
	cfg, weights := stories(t)
	must := []int32{7, 8, 9, 10}
	for _, from := range []int{0, 3} {
		due := func(history []int32) []int32 {
			if n := len(history) - 1 - from; n >= 0 && n < len(must) {
				return must[n:]
			}
			return nil
		}
		forced := GenerateOptions{Forced: due}
		masked := GenerateOptions{Mask: func(history []int32, logits []float32) error {
			if d := due(history); d != nil {
				for id := range logits {
					if int32(id) != d[0] {
						logits[id] = float32(math.Inf(-1))
					}
				}
			}
			return nil
		}}
		for name, cut := range map[string]GenerateOptions{
			"context": {}, "length": {MaxTokens: 5}, "a forced token": {StopTokens: []int32{9}}, "the last of them": {MaxTokens: from + 4}, "after them": {MaxTokens: from + 5},
		} {
			run := func(opt GenerateOptions) ([]int32, Stats, int) {
				opt.MaxTokens, opt.StopTokens = cut.MaxTokens, cut.StopTokens
				s := open(t, cfg, weights, SessionOptions{Context: 12})
				if _, err := s.Prompt(t.Context(), []int32{1}); err != nil {
					t.Fatal(err)
				}
				ids, _, stats := collect(t, s, opt)
				return ids, stats, s.Len()
			}
			want, was, held := run(masked)
			got, is, holds := run(forced)
			if !slices.Equal(got, want) || is.Reason != was.Reason || is.Tokens != was.Tokens || holds != held {
				t.Errorf("from %d, cut at %s: %v %+v, %d held; a mask gives %v %+v, %d held", from, name, got, is, holds, want, was, held)
			}
			if name == "context" && is.Forced < len(must)-1 {
				t.Errorf("%d tokens were forced", is.Forced)
			}
		}
	}
}

// TestForcedWithLookup: proposals change no text with forced tokens, at any
// temperature.
func TestForcedWithLookup(t *testing.T) {
	cfg := small("llama")
	cfg.Context = 1024
	m, err := New(cfg, weightsOf(cfg, 1), Options{Threads: 1, Prefixes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i, r := range requests(20, cfg.Vocab) {
		var texts [2][]int32
		for drafts := range texts {
			r.opt.MaxTokens = 5 + i*7
			r.opt.Lookup, r.opt.AlwaysDraft = drafts == 1, drafts == 1
			if texts[drafts], err = r.run(t.Context(), m, func() {}); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(texts[1], texts[0]) {
			t.Errorf("request %d: with proposals %v, want %v", i, texts[1], texts[0])
		}
	}
}
