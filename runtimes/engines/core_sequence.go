package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"mm-abi.org/mm/core/infer"
	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/runtimes"
)

// NewSequence returns an empty sequence.
func (m *model) NewSequence(_ context.Context, opt runtimes.SequenceOptions) (runtimes.Sequence, error) {
	n := opt.Context
	if n == 0 {
		n = m.context
	}
	if n < 0 || n > m.context {
		return nil, fmt.Errorf("context of %d positions, the model has %d", n, m.context)
	}
	s := &sequence{m: m}
	var err error
	if s.session, err = m.weights.NewSession(infer.SessionOptions{Context: n, KV: m.kv, Hidden: opt.Hidden}); err != nil {
		return nil, err
	}
	if m.draft != nil {
		s.drafting, err = m.draft.NewSession(infer.SessionOptions{Context: min(n, m.draft.Config().Context)})
	}
	return s, err
}

// sequence is a session of core/infer.
type sequence struct {
	m        *model
	session  *infer.Session // nil: closed
	drafting *infer.Session // nil: no draft
	inputs   []infer.Input  // of Feed
}

// Feed appends positions, all or none.
func (s *sequence) Feed(ctx context.Context, in ...runtimes.Positions) error {
	if s.session == nil {
		return runtimes.ErrClosed
	}
	before, rows, shape := s.session.Len(), 0, s.m.Shape()
	s.inputs = s.inputs[:0]
	for _, p := range in {
		n, err := shape.Rows(p)
		if err != nil {
			return err
		}
		rows += n
		s.inputs = append(s.inputs, infer.Input{Tokens: p.Tokens, Vectors: p.Vectors, Deep: p.Deep, Grid: p.Grid, Mutual: p.Mutual})
	}
	if room := s.session.Context() - before; rows > room {
		return fmt.Errorf("%w: max_seq %d, %d positions used, %d more requested", runtimes.ErrFull, s.session.Context(), before, rows)
	}
	ctx, end := s.bounded(ctx)
	defer end()
	return s.mapErr(ctx, s.session.FeedInputs(ctx, s.inputs...))
}

// bounded adds the time limit of a call to ctx.
func (s *sequence) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.m.limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, s.m.limit, runtimes.ErrTime)
}

// mapErr maps a deadline to runtimes.ErrTime.
func (s *sequence) mapErr(ctx context.Context, err error) error {
	if runtimes.OverTime(ctx, err) {
		return fmt.Errorf("%w: a call may take %v", runtimes.ErrTime, s.m.limit.Round(time.Microsecond))
	}
	return closed(err)
}

// Truncate drops the positions from n on.
func (s *sequence) Truncate(n int) error {
	if s.session == nil {
		return runtimes.ErrClosed
	}
	if n < 0 || n > s.session.Len() {
		return fmt.Errorf("cannot truncate %d positions to %d", s.session.Len(), n)
	}
	s.session.Truncate(n)
	return nil
}

// Len returns the number of positions.
func (s *sequence) Len() int {
	if s.session == nil {
		return 0
	}
	return s.session.Len()
}

// stops maps the reasons of core/infer.
var stops = map[infer.Reason]runtimes.Stop{
	infer.StopLength: runtimes.StopLength, infer.StopContext: runtimes.StopContext, infer.StopToken: runtimes.StopEnd,
}

// Generate continues the sequence.
func (s *sequence) Generate(ctx context.Context, opt runtimes.Generation, emit func(id int32) error) (runtimes.Stop, error) {
	if s.session == nil {
		return "", runtimes.ErrClosed
	}
	o := infer.GenerateOptions{
		MaxTokens: opt.MaxTokens, StopTokens: opt.StopIDs, Sampler: opt.Options, Draft: s.drafting, DraftTokens: s.m.proposed,
		Lookup: s.m.lookup,
	}
	if opt.Allow != nil {
		if err := opt.Allow.Check(); err != nil {
			return "", err
		}
		o.Mask = (&walk{grammar: opt.Allow, from: s.session.Len()}).mask
	}
	if opt.Follow != nil {
		s.follow(&o, opt.Follow)
	}
	ctx, emit, end := runtimes.Stepwise(ctx, s.m.limit, emit)
	defer end()
	if err := s.session.Recall(ctx); err != nil {
		return "", s.mapErr(ctx, err)
	}
	stats, err := s.session.Generate(ctx, o, func(t infer.Token) error {
		if err := emit(t.ID); err != nil {
			return &refused{err}
		}
		return nil
	})
	var emitErr *refused
	switch {
	case errors.As(err, &emitErr): // of emit, returned unchanged
		return "", emitErr.error
	case opt.Allow != nil && errors.Is(err, sample.ErrNone): // the grammar ended
		return runtimes.StopEnd, nil
	}
	return stops[stats.Reason], s.mapErr(ctx, err)
}

// follow adds a constraint to the hooks of a generation.
func (s *sequence) follow(o *infer.GenerateOptions, c runtimes.Constraint) {
	from, before := s.session.Len(), o.Mask
	o.Mask = func(history []int32, logits []float32) error {
		if before != nil {
			if err := before(history, logits); err != nil {
				return err
			}
		}
		return c.Mask(history[from:], logits)
	}
	if before == nil { // otherwise the two might force different tokens
		o.Forced = func(history []int32) []int32 { return c.Forced(history[from:]) }
	}
}

// refused marks an error of emit.
type refused struct{ error }

// walk tracks the state of a grammar along a generation.
type walk struct {
	grammar *runtimes.Grammar
	from    int     // positions before the first generated token
	tokens  []int32 // tokens that were followed
	states  []int32 // the state after each of them
}

// mask forbids what the grammar does not allow after history. It is also called for a
// draft's proposals, so a history may branch off from the previous one.
func (w *walk) mask(history []int32, logits []float32) error {
	drawn := history[w.from:]
	same := 0
	for same < len(drawn) && same < len(w.tokens) && drawn[same] == w.tokens[same] {
		same++
	}
	w.tokens, w.states = w.tokens[:same], w.states[:same]
	state := int32(0)
	if same > 0 {
		state = w.states[same-1]
	}
	for _, token := range drawn[same:] {
		state = w.grammar.Next(state, token)
		w.tokens, w.states = append(w.tokens, token), append(w.states, state)
	}
	w.grammar.Mask(state, logits)
	return nil
}

// Logits returns the logits after the last position.
func (s *sequence) Logits(ctx context.Context) ([]float32, error) {
	if s.session == nil {
		return nil, runtimes.ErrClosed
	}
	ctx, end := s.bounded(ctx)
	defer end()
	if err := s.session.Recall(ctx); err != nil {
		return nil, s.mapErr(ctx, err)
	}
	return append([]float32(nil), s.session.Logits()...), nil
}

// Predict appends tokens and calls each with the logits after each of them.
func (s *sequence) Predict(ctx context.Context, tokens []int32, each func(i int, logits []float32)) error {
	if s.session == nil {
		return runtimes.ErrClosed
	}
	if room := s.session.Context() - s.session.Len(); len(tokens) > room {
		return fmt.Errorf("%w: max_seq %d, %d positions used, %d more requested", runtimes.ErrFull, s.session.Context(), s.session.Len(), len(tokens))
	}
	ctx, end := s.bounded(ctx)
	defer end()
	return s.mapErr(ctx, s.session.Predict(ctx, tokens, each))
}

// Hidden returns the states of positions.
func (s *sequence) Hidden(from, to int) ([]float32, error) {
	if s.session == nil {
		return nil, runtimes.ErrClosed
	}
	return s.session.Hidden(from, to)
}

// Save writes the sequence.
func (s *sequence) Save(w io.Writer) error {
	if s.session == nil {
		return runtimes.ErrClosed
	}
	return closed(s.session.WriteSnapshot(w))
}

// Restore reads a saved sequence.
func (s *sequence) Restore(r io.Reader) error {
	if s.session == nil {
		return runtimes.ErrClosed
	}
	return closed(s.session.ReadSnapshot(r))
}

// Shared returns the positions of the last Feed that other sequences computed.
func (s *sequence) Shared() int {
	if s.session == nil {
		return 0
	}
	return s.session.Shared()
}

// Reusable returns the first tokens that a Feed takes from other sequences.
func (s *sequence) Reusable(tokens []int32) int {
	if s.session == nil {
		return 0
	}
	return s.session.Reusable(tokens)
}

// Close frees the sequence.
func (s *sequence) Close() error {
	if s.session != nil {
		s.session.Close()
	}
	s.session, s.drafting = nil, nil
	return nil
}
