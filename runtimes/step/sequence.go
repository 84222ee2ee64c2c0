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

// vector stands for a position that was no token.
const vector int32 = -1

// sequence is one text.
type sequence struct {
	m       *Model
	context int
	hidden  bool
	closed  bool

	tokens []int32   // of the positions; vector where it was none
	rows   []float32 // what they were read as, positions × C
	states []float32 // behind the last norm, where they are kept
	held   [][]byte  // keys and values of layer 0, of layer 1, …; each G × W × D
	logits []float32 // behind the last position; nil: not known
}

// Len is the number of positions held.
func (s *sequence) Len() int { return len(s.tokens) }

// Feed appends positions, all or none.
func (s *sequence) Feed(ctx context.Context, in ...runtimes.Positions) error {
	if s.closed {
		return runtimes.ErrClosed
	}
	var tokens []int32
	var rows []float32
	for _, p := range in {
		width := s.m.shape.Width
		switch {
		case len(p.Tokens) > 0 && len(p.Vectors) > 0:
			return errors.New("positions that are tokens and vectors at once")
		case len(p.Vectors)%width != 0:
			return fmt.Errorf("%d numbers are no whole number of vectors of %d", len(p.Vectors), width)
		}
		tokens = append(append(tokens, p.Tokens...), slices.Repeat([]int32{vector}, len(p.Vectors)/width)...)
		read, err := s.m.Embed(p.Tokens)
		if err != nil {
			return err
		}
		rows = append(append(rows, read...), p.Vectors...)
	}
	ctx, end := s.bounded(ctx)
	defer end()
	return s.told(ctx, s.feed(ctx, tokens, rows))
}

// feed appends positions that are looked up, all or none.
func (s *sequence) feed(ctx context.Context, tokens []int32, rows []float32) error {
	before := s.Len()
	if room := s.context - before; len(tokens) > room {
		return fmt.Errorf("%w: the window is %d, %d positions are taken and %d more are wanted", runtimes.ErrFull, s.context, before, len(tokens))
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

// pass is the shortest that reads n positions at once, or else the longest: what
// a pass costs depends little on how many positions it reads.
func (s *sequence) pass(n int) Pass {
	for _, p := range s.m.passes {
		if p.Positions >= n {
			return p
		}
	}
	return s.m.passes[len(s.m.passes)-1]
}

// bounded ends ctx after the time that a call may take.
func (s *sequence) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.m.limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, s.m.limit, runtimes.ErrTime)
}

// told gives an error its name in the contract.
func (s *sequence) told(ctx context.Context, err error) error {
	if runtimes.OverTime(ctx, err) {
		return fmt.Errorf("%w: a call may take %v", runtimes.ErrTime, s.m.limit.Round(time.Microsecond))
	}
	return err
}

// Truncate forgets the positions from n on.
func (s *sequence) Truncate(n int) error {
	if s.closed {
		return runtimes.ErrClosed
	}
	if n < 0 || n > s.Len() {
		return fmt.Errorf("truncating %d positions to %d", s.Len(), n)
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

// recall makes the logits known: the last position is read again.
func (s *sequence) recall(ctx context.Context) error {
	n := s.Len() - 1
	if n < 0 {
		return errors.New("nothing was fed")
	}
	if s.logits != nil {
		return nil
	}
	token, row := s.tokens[n], slices.Clone(s.rows[n*s.m.shape.Width:])
	s.truncate(n)
	err := s.feed(ctx, []int32{token}, row)
	if err != nil { // its keys and values are there still
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
		return "", s.told(ctx, err)
	}
	for {
		id, err := w.next()
		if opt.Allow != nil && errors.Is(err, sample.ErrNone) { // the grammar is at its end
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
			return "", s.told(ctx, err)
		}
	}
}

// writing is what was written since a generation began.
type writing struct {
	s       *sequence
	opt     runtimes.Generation
	sampler *sample.Sampler
	written []int32
	state   int32 // of the grammar
}

func newWriting(s *sequence, opt runtimes.Generation) (*writing, error) {
	if opt.MaxTokens < 0 {
		return nil, fmt.Errorf("%d tokens: the number must not be negative", opt.MaxTokens)
	}
	if opt.Allow != nil {
		if err := opt.Allow.Check(); err != nil {
			return nil, err
		}
	}
	sampler, err := sample.New(opt.Options)
	return &writing{s: s, opt: opt, sampler: sampler}, err
}

// next chooses the next token.
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
	if w.opt.Follow != nil && w.opt.Allow == nil { // or the two might force different tokens
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

// Logits are those behind the last position.
func (s *sequence) Logits(ctx context.Context) ([]float32, error) {
	if s.closed {
		return nil, runtimes.ErrClosed
	}
	ctx, end := s.bounded(ctx)
	defer end()
	if err := s.recall(ctx); err != nil {
		return nil, s.told(ctx, err)
	}
	return slices.Clone(s.logits), nil
}

// Hidden gives the states of positions.
func (s *sequence) Hidden(from, to int) ([]float32, error) {
	switch {
	case s.closed:
		return nil, runtimes.ErrClosed
	case !s.hidden:
		return nil, errors.New("the sequence keeps no states")
	case from < 0 || to < from || to > s.Len():
		return nil, fmt.Errorf("states of the positions %d to %d: there are %d", from, to, s.Len())
	}
	return slices.Clone(s.states[from*s.m.shape.Width : to*s.m.shape.Width]), nil
}

// Close lets go of the sequence.
func (s *sequence) Close() error {
	*s = sequence{m: s.m, closed: true}
	return nil
}

// finite refuses logits that say nothing.
func finite(x []float32) error {
	for i, v := range x {
		if math.IsNaN(float64(v)) {
			return fmt.Errorf("the logit of token %d is no number", i)
		}
	}
	return nil
}
