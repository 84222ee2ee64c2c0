package infer

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/core/infer/sample"
)

func collect(t *testing.T, s *Session, opt GenerateOptions) ([]int32, string, Stats) {
	t.Helper()
	var ids []int32
	var text strings.Builder
	stats, err := s.Generate(t.Context(), opt, func(k Token) error {
		if k.ID >= 0 {
			ids = append(ids, k.ID)
		}
		text.WriteString(k.Text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids, text.String(), stats
}

func TestGenerate(t *testing.T) {
	cfg, weights := stories(t)
	pieces := storyPieces(t, cfg.Vocab)
	decode := func(token int32) string { return pieces[token] }
	run := func(opt GenerateOptions) ([]int32, string, Stats) {
		s := open(t, cfg, weights, SessionOptions{Context: 100})
		if _, err := s.Prompt(t.Context(), []int32{1}); err != nil {
			t.Fatal(err)
		}
		return collect(t, s, opt)
	}
	all, text, stats := run(GenerateOptions{Decode: decode})
	if stats.Reason != StopContext || stats.Tokens != 100 || len(all) != 100 {
		t.Errorf("%d tokens, stats %+v", len(all), stats)
	}
	if !strings.HasPrefix(text, " "+storyBeginning[:60]) {
		t.Errorf("text %q", text)
	}
	ids, _, stats := run(GenerateOptions{MaxTokens: 7})
	if stats.Reason != StopLength || !slices.Equal(ids, all[:7]) {
		t.Errorf("%v, want %v; %+v", ids, all[:7], stats)
	}
	at := slices.Index(all, all[20])
	ids, _, stats = run(GenerateOptions{StopTokens: []int32{all[20]}})
	if stats.Reason != StopToken || !slices.Equal(ids, all[:at+1]) {
		t.Errorf("%v, want %v; %+v", ids, all[:at+1], stats)
	}
	// One stop string begins and ends within tokens; of another only a prefix
	// occurs.
	_, text, stats = run(GenerateOptions{Decode: decode, StopStrings: []string{"ved to pl", "Lily.X"}})
	if want := " Once upon a time, there was a little girl named Lily. She lo"; stats.Reason != StopString || text != want {
		t.Errorf("%q, want %q; %+v", text, want, stats)
	}
	_, text, _ = run(GenerateOptions{Decode: decode, MaxTokens: len(all), StopStrings: []string{"Lily.X"}})
	if _, want, _ := run(GenerateOptions{Decode: decode}); text != want {
		t.Errorf("%q, want %q", text, want)
	}
	// Only even tokens are allowed.
	ids, _, _ = run(GenerateOptions{MaxTokens: 30, Mask: func(history []int32, logits []float32) error {
		for i := 1; i < len(logits); i += 2 {
			logits[i] = float32(math.Inf(-1))
		}
		return nil
	}})
	for _, id := range ids {
		if id%2 != 0 {
			t.Errorf("token %d was not allowed", id)
		}
	}
}

func TestGenerateErrors(t *testing.T) {
	s := open(t, tiny("llama", 10), random(tiny("llama", 10), 1), SessionOptions{})
	none := func(Token) error { return nil }
	if _, err := s.Generate(t.Context(), GenerateOptions{}, none); err == nil {
		t.Error("a text is continued that never began")
	}
	if err := s.Feed(t.Context(), []int32{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	for name, opt := range map[string]GenerateOptions{
		"no decoder":   {StopStrings: []string{"x"}},
		"empty stop":   {StopStrings: []string{""}, Decode: func(int32) string { return "" }},
		"negative":     {MaxTokens: -1},
		"own draft":    {Draft: s},
		"other vocab":  {Draft: open(t, tiny("llama", 11), random(tiny("llama", 11), 1), SessionOptions{})},
		"temperature":  {Sampler: sample.Options{Temperature: -1}},
		"nothing left": {Mask: func(_ []int32, l []float32) error { clear(l); l[0] = float32(math.NaN()); return errors.New("no") }},
	} {
		if _, err := s.Generate(t.Context(), opt, none); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	stop := errors.New("enough")
	if _, err := s.Generate(t.Context(), GenerateOptions{}, func(Token) error { return stop }); err != stop {
		t.Errorf("emit's error became %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	_, err := s.Generate(ctx, GenerateOptions{}, func(Token) error {
		if n++; n == 5 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || n != 5 {
		t.Errorf("after %d tokens: %v", n, err)
	}
}

func TestFeedErrors(t *testing.T) {
	s := open(t, tiny("llama", 10), random(tiny("llama", 10), 1), SessionOptions{Context: 8})
	if err := s.Feed(t.Context(), []int32{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	if err := s.Feed(t.Context(), []int32{10}); err == nil {
		t.Error("a token beyond the vocabulary is read")
	}
	if err := s.Feed(t.Context(), []int32{-1}); err == nil {
		t.Error("a negative token is read")
	}
	if err := s.FeedVectors(t.Context(), make([]float32, 33)); err == nil {
		t.Error("a part of a vector is read")
	}
	if err := s.Feed(t.Context(), make([]int32, 6)); !errors.Is(err, ErrContext) {
		t.Errorf("too many tokens: %v", err)
	}
	if s.Len() != 3 {
		t.Errorf("errors left %d positions", s.Len())
	}
	if err := s.Feed(t.Context(), nil); err != nil || s.Logits() == nil {
		t.Errorf("nothing to read: %v", err)
	}
	if _, err := s.m.NewSession(SessionOptions{Context: -1}); err == nil {
		t.Error("a negative context is accepted")
	}
	if _, err := s.m.NewSession(SessionOptions{KV: "fp8"}); err == nil {
		t.Error("an unknown storage is accepted")
	}
}

// TestPrompt: a common prefix is not fed again, and the logits are the same as
// if it were.
func TestPrompt(t *testing.T) {
	cfg := tiny("llama", 10)
	weights := random(cfg, 5)
	s := open(t, cfg, weights, SessionOptions{})
	fresh := open(t, cfg, weights, SessionOptions{})
	for _, c := range []struct {
		tokens []int32
		reused int
	}{
		{[]int32{1, 2, 3, 4, 5, 6}, 0},
		{[]int32{1, 2, 3, 4, 5, 6}, 6}, // the logits are still valid
		{[]int32{1, 2, 3, 4}, 3},       // those of the last token are not
		{[]int32{1, 2, 3, 4, 7, 8}, 4},
		{[]int32{2, 3}, 0},
		{nil, 0},
	} {
		got, err := s.Prompt(t.Context(), c.tokens)
		if err != nil {
			t.Fatal(err)
		}
		if got != c.reused || s.Len() != len(c.tokens) {
			t.Errorf("%v: %d reused, want %d; %d positions", c.tokens, got, c.reused, s.Len())
		}
		fresh.Truncate(0)
		if err := fresh.Feed(t.Context(), c.tokens); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.Logits(), fresh.Logits()) {
			t.Errorf("%v: the logits differ from a fresh session's", c.tokens)
		}
	}
}

// TestVectors: the embedding of a token has the effect of the token, and is not
// mistaken for it later.
func TestVectors(t *testing.T) {
	cfg := tiny("qwen2", 10)
	weights := random(cfg, 6)
	s, want := open(t, cfg, weights, SessionOptions{}), open(t, cfg, weights, SessionOptions{})
	vectors := weights["token_embd.weight"].Data[2*cfg.Width : 5*cfg.Width]
	if err := errors.Join(s.Feed(t.Context(), []int32{7}), s.FeedVectors(t.Context(), vectors), s.Feed(t.Context(), []int32{8})); err != nil {
		t.Fatal(err)
	}
	if err := want.Feed(t.Context(), []int32{7, 2, 3, 4, 8}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Logits(), want.Logits()) {
		t.Error("vectors give other logits than the tokens they belong to")
	}
	if got, err := s.Prompt(t.Context(), []int32{7, 2, 3, 4, 8}); err != nil || got != 1 {
		t.Errorf("%d positions were reused: %v", got, err)
	}
}

// noisy returns the weights with noise, a draft that is often right.
func noisy(w Memory, amount float32) Memory {
	out := make(Memory)
	for name, a := range w {
		x := slices.Clone(a.Data)
		for i := range x {
			x[i] += amount * float32(math.Sin(float64(i*7919))) * x[i]
		}
		out[name] = Array{a.Dims, x}
	}
	return out
}

// TestSpeculate: good and bad drafts do not change the text, and good ones are
// accepted.
func TestSpeculate(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	cfg, weights := stories(t)
	plain := open(t, cfg, weights, SessionOptions{Context: 120})
	if _, err := plain.Prompt(t.Context(), []int32{1}); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []sample.Options{{}, {RepeatPenalty: 1.1}, {Temperature: 1, Seed: 4}, {Temperature: 0.7, TopK: 30, TopP: 0.9, RepeatPenalty: 1.1, Seed: 5}} {
		if _, err := plain.Prompt(t.Context(), []int32{1}); err != nil {
			t.Fatal(err)
		}
		want, _, _ := collect(t, plain, GenerateOptions{Sampler: mode})
		drafts := []float32{0, 0.3, 3}
		if mode.Temperature > 0 {
			drafts = drafts[:2]
		}
		for _, amount := range drafts {
			for i, n := range []int{1, 4, 9, 4} {
				always := i < 3 // or adaptive, whatever the clock
				s := open(t, cfg, weights, SessionOptions{Context: 120})
				draft := open(t, cfg, noisy(weights, amount), SessionOptions{Context: 100})
				if _, err := s.Prompt(t.Context(), []int32{1}); err != nil {
					t.Fatal(err)
				}
				got, _, stats := collect(t, s, GenerateOptions{Sampler: mode, Draft: draft, DraftTokens: n, AlwaysDraft: always})
				if !slices.Equal(got, want) {
					t.Fatalf("noise %v, %d drafted: the text differs", amount, n)
				}
				if amount == 0 && stats.Accepted != stats.Drafted {
					t.Errorf("%d of %d tokens of a perfect draft were accepted", stats.Accepted, stats.Drafted)
				}
				if always && stats.Drafted < 40 {
					t.Errorf("%d tokens drafted", stats.Drafted)
				}
				if stats.Tokens != len(want) || s.Len() != 120 {
					t.Errorf("%+v, %d positions", stats, s.Len())
				}
			}
		}
		// The end of a text is the same, too.
		s, draft := open(t, cfg, weights, SessionOptions{}), open(t, cfg, weights, SessionOptions{})
		if _, err := s.Prompt(t.Context(), []int32{1}); err != nil {
			t.Fatal(err)
		}
		got, _, stats := collect(t, s, GenerateOptions{Sampler: mode, MaxTokens: 23, Draft: draft, DraftTokens: 5, AlwaysDraft: true})
		if !slices.Equal(got, want[:23]) || stats.Reason != StopLength || s.Len() != 23 {
			t.Errorf("%d tokens, %d positions, %+v", len(got), s.Len(), stats)
		}
	}
}
