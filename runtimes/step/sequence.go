package step

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/runtimes"
)

// vector marks a position that is not a token.
const vector int32 = -1

// sequence is a text with its keys and values.
type sequence struct {
	m       *Model
	context int
	hidden  bool
	closed  bool

	tokens []int32   // of the positions, with vector for vectors
	rows   []float32 // their embeddings, positions × C
	states []float32 // after the last norm, if hidden
	held   [][]byte  // keys and values of layer 0, of layer 1, …; each G × W × D
	logits []float32 // after the last position; nil: unknown
}

// Len returns the number of positions.
func (s *sequence) Len() int { return len(s.tokens) }

// Feed appends positions, all or none.
func (s *sequence) Feed(ctx context.Context, in ...runtimes.Positions) error {
	if s.closed {
		return runtimes.ErrClosed
	}
	var tokens []int32
	var rows []float32
	for _, p := range in {
		n, err := s.m.Shape().Rows(p)
		if err != nil {
			return err
		}
		tokens = append(append(tokens, p.Tokens...), slices.Repeat([]int32{vector}, n-len(p.Tokens))...)
		read, err := s.m.Embed(p.Tokens)
		if err != nil {
			return err
		}
		rows = append(append(rows, read...), p.Vectors...)
	}
	ctx, end := s.bounded(ctx)
	defer end()
	return s.mapErr(ctx, s.feed(ctx, tokens, rows))
}

// feed appends positions given by their embeddings, all or none.
func (s *sequence) feed(ctx context.Context, tokens []int32, rows []float32) error {
	before := s.Len()
	if room := s.context - before; len(tokens) > room {
		return fmt.Errorf("%w: window %d, %d positions used, %d more requested", runtimes.ErrFull, s.context, before, len(tokens))
	}
	for len(tokens) > 0 {
		p := s.pass(len(tokens))
		n := min(p.Positions, len(tokens))
		if err := s.read(ctx, p, tokens[:n], rows[:n*s.m.shape.Width]); err != nil {
			s.truncate(before)
			return err
		}
		tokens, rows = tokens[n:], rows[n*s.m.shape.Width:]
	}
	return nil
}

// pass returns the shortest pass that reads n positions, or else the longest: the cost of
// a pass depends little on how many positions it reads.
func (s *sequence) pass(n int) Pass {
	for _, p := range s.m.passes {
		if p.Positions >= n {
			return p
		}
	}
	return s.m.passes[len(s.m.passes)-1]
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
	return err
}

// Truncate drops the positions from n on.
func (s *sequence) Truncate(n int) error {
	if s.closed {
		return runtimes.ErrClosed
	}
	if n < 0 || n > s.Len() {
		return fmt.Errorf("cannot truncate %d positions to %d", s.Len(), n)
	}
	if n < s.Len() {
		s.truncate(n)
	}
	return nil
}

func (s *sequence) truncate(n int) {
	s.tokens, s.rows, s.logits = s.tokens[:n], s.rows[:n*s.m.shape.Width], nil
	if s.hidden {
		s.states = s.states[:n*s.m.shape.Width]
	}
}

// recall computes the logits, if unknown, by reading the last position again.
func (s *sequence) recall(ctx context.Context) error {
	n := s.Len() - 1
	if n < 0 {
		return errors.New("empty sequence")
	}
	if s.logits != nil {
		return nil
	}
	token, row := s.tokens[n], slices.Clone(s.rows[n*s.m.shape.Width:])
	s.truncate(n)
	err := s.feed(ctx, []int32{token}, row)
	if err != nil { // its keys and values are still held
		s.tokens, s.rows = append(s.tokens, token), append(s.rows, row...)
		if s.hidden {
			s.states = s.states[:len(s.rows)]
		}
	}
	return err
}

// Generate continues the sequence.
func (s *sequence) Generate(ctx context.Context, opt runtimes.Generation, emit func(id int32) error) (runtimes.Stop, error) {
	if s.closed {
		return "", runtimes.ErrClosed
	}
	w, err := newWriting(s, opt)
	if err != nil {
		return "", err
	}
	ctx, emit, end := runtimes.Stepwise(ctx, s.m.limit, emit)
	defer end()
	if err := s.recall(ctx); err != nil {
		return "", s.mapErr(ctx, err)
	}
	for {
		id, err := w.next()
		if opt.Allow != nil && errors.Is(err, sample.ErrNone) { // the grammar ended
			return runtimes.StopEnd, nil
		}
		if err == nil {
			err = emit(id)
		}
		if err != nil {
			return "", err
		}
		switch {
		case slices.Contains(opt.StopIDs, id):
			return runtimes.StopEnd, nil
		case len(w.written) == opt.MaxTokens:
			return runtimes.StopLength, nil
		case s.Len() == s.context:
			return runtimes.StopContext, nil
		}
		row, err := s.m.Embed([]int32{id})
		if err == nil {
			err = s.feed(ctx, []int32{id}, row)
		}
		if err != nil {
			return "", s.mapErr(ctx, err)
		}
	}
}

// writing is the state of a generation.
type writing struct {
	s       *sequence
	opt     runtimes.Generation
	sampler *sample.Sampler
	written []int32
	state   int32 // of the grammar
}

func newWriting(s *sequence, opt runtimes.Generation) (*writing, error) {
	if opt.MaxTokens < 0 {
		return nil, fmt.Errorf("negative number of tokens: %d", opt.MaxTokens)
	}
	if opt.Allow != nil {
		if err := opt.Allow.Check(); err != nil {
			return nil, err
		}
	}
	sampler, err := sample.New(opt.Options)
	return &writing{s: s, opt: opt, sampler: sampler}, err
}

// next samples the next token.
func (w *writing) next() (id int32, err error) {
	if id, err = w.choose(); err != nil {
		return 0, err
	}
	if w.opt.Allow != nil {
		w.state = w.opt.Allow.Next(w.state, id)
	}
	w.written = append(w.written, id)
	return id, nil
}

func (w *writing) choose() (int32, error) {
	if w.opt.Follow != nil && w.opt.Allow == nil { // otherwise the two might force different tokens
		if forced := w.opt.Follow.Forced(w.written); len(forced) > 0 {
			return forced[0], nil
		}
	}
	logits := w.s.logits
	if w.opt.Allow != nil || w.opt.Follow != nil {
		logits = slices.Clone(logits)
	}
	if w.opt.Allow != nil {
		w.opt.Allow.Mask(w.state, logits)
	}
	if w.opt.Follow != nil {
		if err := w.opt.Follow.Mask(w.written, logits); err != nil {
			return 0, err
		}
	}
	return w.sampler.Sample(logits, w.s.tokens)
}

// Logits returns the logits after the last position.
func (s *sequence) Logits(ctx context.Context) ([]float32, error) {
	if s.closed {
		return nil, runtimes.ErrClosed
	}
	ctx, end := s.bounded(ctx)
	defer end()
	if err := s.recall(ctx); err != nil {
		return nil, s.mapErr(ctx, err)
	}
	return slices.Clone(s.logits), nil
}

// Hidden returns the states of positions.
func (s *sequence) Hidden(from, to int) ([]float32, error) {
	switch {
	case s.closed:
		return nil, runtimes.ErrClosed
	case !s.hidden:
		return nil, errors.New("the sequence keeps no states")
	case from < 0 || to < from || to > s.Len():
		return nil, fmt.Errorf("states %d to %d out of range: %d positions", from, to, s.Len())
	}
	return slices.Clone(s.states[from*s.m.shape.Width : to*s.m.shape.Width]), nil
}

// Close frees the sequence.
func (s *sequence) Close() error {
	*s = sequence{m: s.m, closed: true}
	return nil
}

// finite refuses logits with NaN.
func finite(x []float32) error {
	for i, v := range x {
		if math.IsNaN(float64(v)) {
			return fmt.Errorf("the logit of token %d is NaN", i)
		}
	}
	return nil
}
