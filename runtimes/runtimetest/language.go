package runtimetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing/iotest"
	"time"

	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/runtimes"
)

// Language is an engine to test with a language model, which must have a context of at least 64
// tokens and a vocabulary of at least 8.
type Language struct {
	Engine runtimes.Engine
	Bundle runtimes.Bundle
	Prompt []int32 // at least 6 tokens
}

// Cases returns the requirements of language models.
func (l Language) Cases() []Case {
	return append(opening(l.Engine, l.Bundle),
		l.with("greedy is deterministic", language.deterministic),
		l.with("seeds", language.seeds),
		l.with("max tokens", language.maxTokens),
		l.with("stop ids", language.stopIDs),
		l.with("options that make no sense", language.badOptions),
		l.with("Len", language.length),
		l.with("a full sequence", language.full),
		l.with("Feed is all or nothing", language.allOrNothing),
		l.with("Truncate and Feed", language.truncate),
		l.with("Generate behind Truncate", language.behindTruncate),
		l.with("positions that see each other", language.mutual),
		l.with("positions in a grid", language.grid),
		l.with("going on", language.goingOn),
		l.with("two sequences side by side", language.sideBySide),
		l.with("sequences at once", language.atOnce),
		l.with("emit ends it", language.emitEnds),
		l.with("cancel between tokens", language.cancelBetween),
		l.with("cancel inside a Feed", language.cancelInside),
		l.with("a closed sequence", language.closedSequence),
		l.with("a closed model", language.closedModel),
		l.with("a short context", language.shortContext),
		l.with("a grammar", language.grammar),
		l.with("a grammar that ends", language.grammarEnds),
		l.with("vectors of tokens", language.vectors),
		l.with("logits", language.logits),
		l.with("hidden states", language.hidden),
		l.with("save and restore", language.saver),
		Case{"a time limit", l.timeLimit},
	)
}

// language is an open model.
type language struct {
	Language
	model runtimes.Language
}

func (l Language) with(name string, run func(language, context.Context) error) Case {
	return Case{name, func(ctx context.Context) (err error) {
		m, err := l.Engine.Open(ctx, l.Bundle, runtimes.Limits{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, m.Close()) }()
		open, ok := m.(runtimes.Language)
		if !ok {
			return fmt.Errorf("Open returned a %T, want a language model", m)
		}
		return run(language{l, open}, ctx)
	}}
}

// begin returns a sequence that has read a prompt.
func (l language) begin(ctx context.Context, prompt []int32) (runtimes.Sequence, error) {
	s, err := l.model.NewSequence(ctx, runtimes.SequenceOptions{})
	if err != nil {
		return nil, err
	}
	return s, s.Feed(ctx, runtimes.Positions{Tokens: prompt})
}

// say continues a sequence greedily.
func say(ctx context.Context, s runtimes.Sequence, opt runtimes.Generation) ([]int32, runtimes.Stop, error) {
	var ids []int32
	stop, err := s.Generate(ctx, opt, func(id int32) error {
		ids = append(ids, id)
		return nil
	})
	return ids, stop, err
}

// fresh returns the continuation of a prompt by a new sequence.
func (l language) fresh(ctx context.Context, prompt []int32, opt runtimes.Generation) ([]int32, runtimes.Stop, error) {
	s, err := l.begin(ctx, prompt)
	if err != nil {
		return nil, "", err
	}
	defer s.Close()
	return say(ctx, s, opt)
}

const few = 8

// same compares a sequence's continuation with that of a fresh one.
func (l language) same(ctx context.Context, s runtimes.Sequence, prompt []int32, what string) error {
	want, _, err := l.fresh(ctx, prompt, runtimes.Generation{MaxTokens: few})
	if err != nil {
		return err
	}
	got, _, err := say(ctx, s, runtimes.Generation{MaxTokens: few})
	if err != nil || !slices.Equal(got, want) {
		return fmt.Errorf("%s: got %v (%v), a fresh sequence returns %v", what, got, err, want)
	}
	return nil
}

func (l language) deterministic(ctx context.Context) error {
	a, stop, err := l.fresh(ctx, l.Prompt, runtimes.Generation{MaxTokens: few})
	if err != nil {
		return err
	}
	b, _, err := l.fresh(ctx, l.Prompt, runtimes.Generation{MaxTokens: few})
	if err != nil || !slices.Equal(a, b) || len(a) != few || stop != runtimes.StopLength {
		return fmt.Errorf("got %v (%s), then %v (%v)", a, stop, b, err)
	}
	return nil
}

func (l language) seeds(ctx context.Context) error {
	opt := runtimes.Generation{Options: sample.Options{Temperature: 2, Seed: 7}, MaxTokens: 2 * few}
	a, _, err := l.fresh(ctx, l.Prompt, opt)
	if err != nil {
		return err
	}
	b, _, err := l.fresh(ctx, l.Prompt, opt)
	if err != nil || !slices.Equal(a, b) {
		return fmt.Errorf("seed 7: got %v, then %v (%v)", a, b, err)
	}
	for seed := range uint64(8) {
		opt.Seed = 100 + seed
		if b, _, err = l.fresh(ctx, l.Prompt, opt); err != nil {
			return err
		}
		if !slices.Equal(a, b) {
			return nil
		}
	}
	return fmt.Errorf("nine seeds at temperature 2: all got %v", a)
}

func (l language) maxTokens(ctx context.Context) error {
	long, _, err := l.fresh(ctx, l.Prompt, runtimes.Generation{MaxTokens: few})
	if err != nil {
		return err
	}
	short, stop, err := l.fresh(ctx, l.Prompt, runtimes.Generation{MaxTokens: 3})
	if err != nil || stop != runtimes.StopLength || !slices.Equal(short, long[:3]) {
		return fmt.Errorf("3 tokens: %v (%s, %v), 8 tokens: %v", short, stop, err, long)
	}
	return nil
}

func (l language) stopIDs(ctx context.Context) error {
	all, _, err := l.fresh(ctx, l.Prompt, runtimes.Generation{MaxTokens: few})
	if err != nil {
		return err
	}
	last := all[len(all)/2]
	want := all[:slices.Index(all, last)+1]
	got, stop, err := l.fresh(ctx, l.Prompt, runtimes.Generation{MaxTokens: few, StopIDs: []int32{last}})
	if err != nil || stop != runtimes.StopEnd || !slices.Equal(got, want) {
		return fmt.Errorf("stopping at %d: got %v (%s, %v), want %v", last, got, stop, err, want)
	}
	return nil
}

func (l language) badOptions(ctx context.Context) error {
	s, err := l.begin(ctx, l.Prompt)
	if err != nil {
		return err
	}
	for _, opt := range []runtimes.Generation{
		{MaxTokens: -1}, {Options: sample.Options{TopP: 7}}, {Options: sample.Options{Temperature: -1}},
		{Allow: &runtimes.Grammar{}}, {Allow: &runtimes.Grammar{States: []runtimes.State{{Else: 9}}}},
	} {
		if ids, _, err := say(ctx, s, opt); err == nil {
			return fmt.Errorf("%+v: got %v", opt, ids)
		}
	}
	return l.same(ctx, s, l.Prompt, "behind a refused Generate")
}

func (l language) length(ctx context.Context) error {
	s, err := l.begin(ctx, l.Prompt)
	if err != nil {
		return err
	}
	if s.Len() != len(l.Prompt) {
		return fmt.Errorf("%d positions of %d tokens", s.Len(), len(l.Prompt))
	}
	ids, _, err := say(ctx, s, runtimes.Generation{MaxTokens: few})
	if err != nil {
		return err
	}
	if n := s.Len() - len(l.Prompt) - len(ids); n != 0 && n != -1 {
		return fmt.Errorf("%d positions after %d tokens and %d generated ones", s.Len(), len(l.Prompt), len(ids))
	}
	return nil
}

func (l language) full(ctx context.Context) error {
	s, err := l.begin(ctx, l.Prompt)
	if err != nil {
		return err
	}
	room := l.model.Shape().Context
	if err := s.Feed(ctx, runtimes.Positions{Tokens: make([]int32, room-len(l.Prompt)+1)}); !errors.Is(err, runtimes.ErrFull) {
		return fmt.Errorf("one token too many: got %v, want %v", err, runtimes.ErrFull)
	}
	if s.Len() != len(l.Prompt) {
		return fmt.Errorf("a refused Feed left %d positions of %d", s.Len(), len(l.Prompt))
	}
	if err := s.Feed(ctx, runtimes.Positions{Tokens: slices.Repeat(l.Prompt[:1], room-len(l.Prompt))}); err != nil {
		return fmt.Errorf("an exact fit: %w", err)
	}
	ids, stop, err := say(ctx, s, runtimes.Generation{})
	if err != nil || stop != runtimes.StopContext || len(ids) > 1 {
		return fmt.Errorf("a full sequence: got %v (%s, %v)", ids, stop, err)
	}
	return nil
}

func (l language) allOrNothing(ctx context.Context) error {
	s, err := l.begin(ctx, l.Prompt)
	if err != nil {
		return err
	}
	shape := l.model.Shape()
	for what, in := range map[string][]runtimes.Positions{
		"a token too large":     {{Tokens: l.Prompt}, {Tokens: []int32{int32(shape.Vocab)}}},
		"a negative token":      {{Tokens: l.Prompt}, {Tokens: []int32{-1}}},
		"part of a vector":      {{Tokens: l.Prompt}, {Vectors: make([]float32, shape.Width+1)}},
		"tokens and vectors":    {{Tokens: l.Prompt}, {Tokens: l.Prompt, Vectors: make([]float32, shape.Width)}},
		"more than it can hold": {{Tokens: l.Prompt}, {Tokens: make([]int32, shape.Context)}},
	} {
		if err := s.Feed(ctx, in...); err == nil || s.Len() != len(l.Prompt) {
			return fmt.Errorf("%s: %v, %d positions of %d", what, err, s.Len(), len(l.Prompt))
		}
	}
	return l.same(ctx, s, l.Prompt, "behind a refused Feed")
}

func (l language) truncate(ctx context.Context) error {
	n := len(l.Prompt) / 2
	other := slices.Clone(l.Prompt)
	slices.Reverse(other)
	s, err := l.begin(ctx, l.Prompt)
	if err != nil {
		return err
	}
	for _, bad := range []int{-1, len(l.Prompt) + 1} {
		if err := s.Truncate(bad); err == nil {
			return fmt.Errorf("Truncate(%d) of %d positions", bad, len(l.Prompt))
		}
	}
	if err := errors.Join(s.Truncate(n), s.Feed(ctx, runtimes.Positions{Tokens: other})); err != nil {
		return err
	}
	if err := l.same(ctx, s, append(slices.Clone(l.Prompt[:n]), other...), "Truncate and Feed"); err != nil {
		return err
	}
	if err := errors.Join(s.Truncate(0), s.Feed(ctx, runtimes.Positions{Tokens: other})); err != nil {
		return err
	}
	return l.same(ctx, s, other, "Truncate(0) and Feed")
}

// mutual: an engine refuses positions that see each other, or reads them together
// and drops them as a whole.
func (l language) mutual(ctx context.Context) error {
	s, err := l.begin(ctx, l.Prompt[:2])
	if err != nil {
		return err
	}
	block := runtimes.Positions{Tokens: l.Prompt[2:], Mutual: true}
	if err := s.Feed(ctx, block); !l.model.Shape().Mutual {
		if !errors.Is(err, runtimes.ErrUnavailable) || s.Len() != 2 {
			return fmt.Errorf("got %v and %d positions, want it refused", err, s.Len())
		}
		return nil
	} else if err != nil {
		return err
	}
	if err := s.Truncate(len(l.Prompt) - 1); err != nil || s.Len() != 2 {
		return fmt.Errorf("cut in a block: %d positions, %v", s.Len(), err)
	}
	if err := s.Feed(ctx, runtimes.Positions{Tokens: l.Prompt[2:]}); err != nil {
		return err
	}
	return l.same(ctx, s, l.Prompt, "behind a dropped block")
}

// grid: an engine refuses a grid that its model cannot place.
func (l language) grid(ctx context.Context) error {
	shape := l.model.Shape()
	s, err := l.begin(ctx, l.Prompt)
	if err != nil || shape.Grid {
		return err
	}
	err = s.Feed(ctx, runtimes.Positions{Vectors: make([]float32, 4*shape.Width), Grid: [3]int{1, 2, 2}})
	if !errors.Is(err, runtimes.ErrUnavailable) || s.Len() != len(l.Prompt) {
		return fmt.Errorf("got %v and %d positions, want it refused", err, s.Len())
	}
	return nil
}

func (l language) behindTruncate(ctx context.Context) error {
	n := len(l.Prompt) - 2
	s, err := l.begin(ctx, l.Prompt)
	if err != nil {
		return err
	}
	if err := s.Truncate(n); err != nil {
		return err
	}
	if err := l.same(ctx, s, l.Prompt[:n], "Generate behind Truncate"); err != nil {
		return err
	}
	if err := s.Truncate(0); err != nil {
		return err
	}
	if ids, _, err := say(ctx, s, runtimes.Generation{MaxTokens: 1}); err == nil {
		return fmt.Errorf("an empty sequence: got %v", ids)
	}
	return nil
}

// goingOn: a second turn follows generated tokens.
func (l language) goingOn(ctx context.Context) error {
	s, err := l.begin(ctx, l.Prompt)
	if err != nil {
		return err
	}
	ids, _, err := say(ctx, s, runtimes.Generation{MaxTokens: few})
	if err != nil {
		return err
	}
	all := append(slices.Clone(l.Prompt), ids...)
	if err := s.Feed(ctx, runtimes.Positions{Tokens: all[s.Len():]}, runtimes.Positions{Tokens: l.Prompt}); err != nil {
		return err
	}
	return l.same(ctx, s, append(all, l.Prompt...), "a second turn")
}

func (l language) sideBySide(ctx context.Context) error {
	other := slices.Clone(l.Prompt)
	slices.Reverse(other)
	prompts := [][]int32{l.Prompt, other}
	var open []runtimes.Sequence
	for _, p := range prompts {
		s, err := l.model.NewSequence(ctx, runtimes.SequenceOptions{})
		if err != nil {
			return err
		}
		if err := s.Feed(ctx, runtimes.Positions{Tokens: p[:2]}); err != nil {
			return err
		}
		open = append(open, s)
	}
	for i, p := range prompts {
		if err := open[i].Feed(ctx, runtimes.Positions{Tokens: p[2:]}); err != nil {
			return err
		}
	}
	for i, p := range prompts {
		if err := l.same(ctx, open[i], p, fmt.Sprintf("sequence %d beside another", i)); err != nil {
			return err
		}
	}
	return nil
}

func (l language) atOnce(ctx context.Context) error {
	var errs [4]error
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			prompt := append(slices.Clone(l.Prompt), l.Prompt[i])
			s, err := l.begin(ctx, prompt)
			if err == nil {
				err = l.same(ctx, s, prompt, fmt.Sprintf("sequence %d among others", i))
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

func (l language) emitEnds(ctx context.Context) error {
	s, err := l.begin(ctx, l.Prompt)
	if err != nil {
		return err
	}
	enough := errors.New("enough")
	var ids []int32
	_, err = s.Generate(ctx, runtimes.Generation{MaxTokens: few}, func(id int32) error {
		if ids = append(ids, id); len(ids) == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || len(ids) != 2 {
		return fmt.Errorf("emit was called %d times, Generate returned %v", len(ids), err)
	}
	all := append(slices.Clone(l.Prompt), ids...)
	if n := len(all) - s.Len(); n != 0 && n != 1 {
		return fmt.Errorf("%d positions of %d", s.Len(), len(all))
	}
	if err := s.Feed(ctx, runtimes.Positions{Tokens: all[s.Len():]}); err != nil {
		return err
	}
	return l.same(ctx, s, all, "behind what emit ended")
}

func (l language) cancelBetween(ctx context.Context) error {
	s, err := l.begin(ctx, l.Prompt)
	if err != nil {
		return err
	}
	short, stop := context.WithCancel(ctx)
	var ids []int32
	_, err = s.Generate(short, runtimes.Generation{}, func(id int32) error {
		ids = append(ids, id)
		stop()
		return nil
	})
	if !errors.Is(err, context.Canceled) || len(ids) > 2 {
		return fmt.Errorf("canceled Generate: got %v after %d tokens", err, len(ids))
	}
	all := append(slices.Clone(l.Prompt), ids...)
	if err := s.Feed(ctx, runtimes.Positions{Tokens: all[s.Len():]}); err != nil {
		return err
	}
	return l.same(ctx, s, all, "behind a cancelled Generate")
}

func (l language) cancelInside(ctx context.Context) error {
	s, err := l.begin(ctx, l.Prompt)
	if err != nil {
		return err
	}
	ended, end := context.WithCancel(ctx)
	end()
	if err := s.Feed(ended, runtimes.Positions{Tokens: l.Prompt}); !errors.Is(err, context.Canceled) || s.Len() != len(l.Prompt) {
		return fmt.Errorf("canceled Feed: got %v, %d positions of %d", err, s.Len(), len(l.Prompt))
	}
	if _, _, err := say(ended, s, runtimes.Generation{MaxTokens: few}); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("call of Generate canceled before its start: got %v", err)
	}
	if err := s.Truncate(len(l.Prompt)); err != nil { // a token may have been chosen
		return err
	}
	return l.same(ctx, s, l.Prompt, "behind a cancelled Feed")
}

func (l language) closedSequence(ctx context.Context) error {
	s, err := l.begin(ctx, l.Prompt)
	if err != nil {
		return err
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		return fmt.Errorf("calling Close: %w", err)
	}
	_, _, closed := say(ctx, s, runtimes.Generation{MaxTokens: 1})
	for what, err := range map[string]error{"Feed": s.Feed(ctx, runtimes.Positions{Tokens: l.Prompt}), "Truncate": s.Truncate(0), "Generate": closed} {
		if !errors.Is(err, runtimes.ErrClosed) {
			return fmt.Errorf("%s of a closed sequence: got %v, want %v", what, err, runtimes.ErrClosed)
		}
	}
	return nil
}

func (l language) closedModel(ctx context.Context) error {
	s, err := l.begin(ctx, l.Prompt)
	if err != nil {
		return err
	}
	if err := l.model.Close(); err != nil {
		return err
	}
	if err := s.Feed(ctx, runtimes.Positions{Tokens: l.Prompt}); !errors.Is(err, runtimes.ErrClosed) {
		return fmt.Errorf("call of Feed on a closed model: got %v, want %v", err, runtimes.ErrClosed)
	}
	return s.Close()
}

func (l language) shortContext(ctx context.Context) error {
	for _, n := range []int{-1, l.model.Shape().Context + 1} {
		if _, err := l.model.NewSequence(ctx, runtimes.SequenceOptions{Context: n}); err == nil {
			return fmt.Errorf("a sequence of %d positions", n)
		}
	}
	s, err := l.model.NewSequence(ctx, runtimes.SequenceOptions{Context: len(l.Prompt) + 2})
	if err != nil {
		return err
	}
	if err := s.Feed(ctx, runtimes.Positions{Tokens: l.Prompt}); err != nil {
		return err
	}
	ids, stop, err := say(ctx, s, runtimes.Generation{})
	if err != nil || stop != runtimes.StopContext || len(ids) < 2 || len(ids) > 3 {
		return fmt.Errorf("room for two tokens: %v (%s, %v)", ids, stop, err)
	}
	return nil
}

// grammar: only allowed tokens are generated, greedily and by sampling.
func (l language) grammar(ctx context.Context) error {
	g := &runtimes.Grammar{States: []runtimes.State{
		{Else: runtimes.Nowhere, Edges: []runtimes.Edge{{From: 2, To: 4, Next: 1}}},
		{Else: 0, Edges: []runtimes.Edge{{From: 0, To: 5, Next: runtimes.Nowhere}}},
	}}
	for _, temperature := range []float32{0, 1} {
		ids, _, err := l.fresh(ctx, l.Prompt, runtimes.Generation{Options: sample.Options{Temperature: temperature}, MaxTokens: few, Allow: g})
		if err != nil || len(ids) != few {
			return fmt.Errorf("%v, %v", ids, err)
		}
		for i, id := range ids {
			if inside := id >= 2 && id <= 4; i%2 == 0 && !inside || i%2 == 1 && id <= 5 {
				return fmt.Errorf("token %d of %v is not allowed", i, ids)
			}
		}
	}
	return nil
}

func (l language) grammarEnds(ctx context.Context) error {
	choices := [][]int32{{3, 1, 4}, {2, 7}}
	ids, stop, err := l.fresh(ctx, l.Prompt, runtimes.Generation{Allow: runtimes.Sequences(choices, nil)})
	if err != nil || stop != runtimes.StopEnd || !slices.ContainsFunc(choices, func(c []int32) bool { return slices.Equal(c, ids) }) {
		return fmt.Errorf("of the choices %v: %v (%s, %v)", choices, ids, stop, err)
	}
	return nil
}

func (l language) vectors(ctx context.Context) error {
	e, ok := l.model.(runtimes.Embedder)
	if !ok {
		return ErrAbsent
	}
	v, err := e.Embed(l.Prompt[2:])
	if err != nil {
		return err
	}
	if w := l.model.Shape().Width; len(v) != w*(len(l.Prompt)-2) {
		return fmt.Errorf("%d tokens have %d numbers of %d", len(l.Prompt)-2, len(v), w)
	}
	s, err := l.begin(ctx, l.Prompt[:2])
	if err != nil {
		return err
	}
	if err := s.Feed(ctx, runtimes.Positions{Vectors: v}); err != nil {
		return err
	}
	if s.Len() != len(l.Prompt) {
		return fmt.Errorf("%d positions of %d", s.Len(), len(l.Prompt))
	}
	return l.same(ctx, s, l.Prompt, "vectors of tokens")
}

func (l language) logits(ctx context.Context) error {
	s, err := l.begin(ctx, l.Prompt)
	if err != nil {
		return err
	}
	scorer, ok := s.(runtimes.Scorer)
	if !ok {
		return ErrAbsent
	}
	x, err := scorer.Logits(ctx)
	if err != nil || len(x) != l.model.Shape().Vocab {
		return fmt.Errorf("%d logits of %d, %v", len(x), l.model.Shape().Vocab, err)
	}
	ids, _, err := say(ctx, s, runtimes.Generation{MaxTokens: 1})
	if err != nil || x[ids[0]] != slices.Max(x) {
		return fmt.Errorf("token %v is not the most likely one, %v", ids, err)
	}
	return nil
}

func (l language) hidden(ctx context.Context) error {
	s, err := l.model.NewSequence(ctx, runtimes.SequenceOptions{Hidden: true})
	if err != nil {
		return err
	}
	states, ok := s.(runtimes.Hidden)
	if !ok {
		return ErrAbsent
	}
	if err := s.Feed(ctx, runtimes.Positions{Tokens: l.Prompt}); err != nil {
		return err
	}
	w, n := l.model.Shape().Width, len(l.Prompt)
	all, err := states.Hidden(0, n)
	if err != nil || len(all) != n*w {
		return fmt.Errorf("%d numbers of %d, %v", len(all), n*w, err)
	}
	some, err := states.Hidden(2, 4)
	if err != nil || !slices.Equal(some, all[2*w:4*w]) {
		return fmt.Errorf("positions 2 to 4 are not those of all: %v", err)
	}
	if _, err := states.Hidden(0, n+1); err == nil {
		return errors.New("a position out of range has a state")
	}
	return l.same(ctx, s, l.Prompt, "with hidden states kept")
}

func (l language) saver(ctx context.Context) error {
	s, err := l.begin(ctx, l.Prompt)
	if err != nil {
		return err
	}
	saver, ok := s.(runtimes.Saver)
	if !ok {
		return ErrAbsent
	}
	var b bytes.Buffer
	if err := saver.Save(&b); err != nil {
		return err
	}
	other, err := l.begin(ctx, l.Prompt[:3])
	if err != nil {
		return err
	}
	damaged := bytes.Clone(b.Bytes())
	damaged[len(damaged)/2] ^= 1
	for what, r := range map[string]io.Reader{
		"a damaged one": bytes.NewReader(damaged), "half of one": bytes.NewReader(b.Bytes()[:b.Len()/2]),
		"one with an error at its end": io.MultiReader(bytes.NewReader(b.Bytes()), iotest.ErrReader(errors.New("refused"))),
	} {
		if err := other.(runtimes.Saver).Restore(r); err == nil || other.Len() != 3 {
			return fmt.Errorf("%s: %v, %d positions", what, err, other.Len())
		}
	}
	if err := other.(runtimes.Saver).Restore(strings.NewReader(b.String())); err != nil {
		return err
	}
	return l.same(ctx, other, l.Prompt, "a restored sequence")
}

func (l Language) timeLimit(ctx context.Context) error {
	m, err := l.Engine.Open(ctx, l.Bundle, runtimes.Limits{Time: time.Nanosecond})
	if err != nil {
		return err
	}
	defer m.Close()
	s, err := m.(runtimes.Language).NewSequence(ctx, runtimes.SequenceOptions{})
	if err != nil {
		return err
	}
	if err := s.Feed(ctx, runtimes.Positions{Tokens: l.Prompt}); !errors.Is(err, runtimes.ErrTime) || s.Len() != 0 {
		return fmt.Errorf("call of Feed with a limit of a nanosecond: got %v, %d positions", err, s.Len())
	}
	return nil
}
