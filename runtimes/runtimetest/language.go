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
