package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/runtimes"
)

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
