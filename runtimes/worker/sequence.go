package worker

import (
	"context"
	"errors"
	"fmt"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// vector marks a position that is not a token.
const vector int32 = -1

// sequence is a sequence in a child together with its history, which is fed to the
// next child if the child ends.
type sequence struct {
	m       *model
	opt     runtimes.SequenceOptions
	context int
	closed  bool

	in *opened // the child that holds it; nil: none
	id uint64  // its id in that child

	ids     []int32   // all positions, with vector for vectors
	vectors []float32 // the vectors, concatenated
}

// at returns a child that holds the sequence with all its positions.
func (s *sequence) at(ctx context.Context) (*opened, error) {
	if s.closed {
		return nil, fmt.Errorf("the sequence is %w", runtimes.ErrClosed)
	}
	c, err := s.m.child(ctx)
	if err != nil || c == s.in {
		return c, err
	}
	inner, end := within(ctx, s.m.beginning())
	defer end()
	reply, _, err := c.call(inner, wire.Request{Op: wire.OpSequence, Options: &s.opt}, nil, nil)
	if err == nil && len(s.ids) > 0 {
		runs, payload := wire.Feed(s.held())
		_, _, err = c.call(inner, wire.Request{Op: wire.OpFeed, Sequence: reply.Sequence, Feed: runs}, payload, nil)
	}
	if err != nil {
		return nil, s.m.opt.mapErr(ctx, inner, s.m.beginning(), reading, err)
	}
	s.in, s.id = c, reply.Sequence
	return c, nil
}

// held returns the history in a form that can be fed.
func (s *sequence) held() []runtimes.Positions {
	var in []runtimes.Positions
	vectors := s.vectors
	for at := 0; at < len(s.ids); {
		to := at
		for to < len(s.ids) && (s.ids[to] == vector) == (s.ids[at] == vector) {
			to++
		}
		if s.ids[at] == vector {
			n := (to - at) * s.m.shape.Width
			in = append(in, runtimes.Positions{Vectors: vectors[:n]})
			vectors = vectors[n:]
		} else {
			in = append(in, runtimes.Positions{Tokens: s.ids[at:to]})
		}
		at = to
	}
	return in
}

// cut drops the positions from n on.
func (s *sequence) cut(n int) {
	for _, id := range s.ids[n:] {
		if id == vector {
			s.vectors = s.vectors[:len(s.vectors)-s.m.shape.Width]
		}
	}
	s.ids = s.ids[:n]
}

// lost makes the next call recreate the sequence.
func (s *sequence) lost() { s.in = nil }

// room validates positions before they are sent.
func (s *sequence) room(in []runtimes.Positions) error {
	rows := 0
	for _, p := range in {
		n, err := s.m.shape.Rows(p)
		if err != nil {
			return err
		}
		for _, id := range p.Tokens {
			if id < 0 || int(id) >= s.m.shape.Vocab {
				return fmt.Errorf("token %d out of range: vocabulary of %d", id, s.m.shape.Vocab)
			}
		}
		rows += n
	}
	if held := len(s.ids); rows > s.context-held {
		return fmt.Errorf("%w: context %d, %d positions used, %d more requested", runtimes.ErrFull, s.context, held, rows)
	}
	return nil
}

// Feed appends positions, all or none.
func (s *sequence) Feed(ctx context.Context, in ...runtimes.Positions) error {
	c, err := s.at(ctx)
	if err == nil {
		err = s.room(in)
	}
	if err != nil {
		return err
	}
	inner, end := s.m.bounded(ctx)
	defer end()
	runs, payload := wire.Feed(in)
	reply, _, err := c.call(inner, wire.Request{Op: wire.OpFeed, Sequence: s.id, Feed: runs}, payload, nil)
	if err != nil {
		if reply == nil || reply.Len != len(s.ids) { // the child may have fed them before the cancellation
			s.lost()
		}
		return s.m.mapErr(ctx, inner, reading, err)
	}
	for _, p := range in {
		s.ids = append(s.ids, p.Tokens...)
		for range len(p.Vectors) / s.m.shape.Width {
			s.ids = append(s.ids, vector)
		}
		s.vectors = append(s.vectors, p.Vectors...)
	}
	return nil
}

// Truncate drops the positions from n on.
func (s *sequence) Truncate(n int) error {
	c, err := s.at(context.Background())
	if err != nil {
		return err
	}
	if n < 0 || n > len(s.ids) {
		return fmt.Errorf("cannot truncate %d positions to %d", len(s.ids), n)
	}
	if n == len(s.ids) {
		return nil
	}
	s.cut(n)
	return s.align(c, n)
}

// align truncates the child's sequence to this length, or marks it lost.
func (s *sequence) align(c *opened, n int) error {
	ctx, end := s.m.bounded(context.Background())
	defer end()
	if _, _, err := c.call(ctx, wire.Request{Op: wire.OpTruncate, Sequence: s.id, N: n}, nil, nil); err != nil {
		s.lost()
	}
	return nil
}

// Len returns the number of positions.
func (s *sequence) Len() int { return len(s.ids) }

// Generate continues the sequence.
func (s *sequence) Generate(ctx context.Context, opt runtimes.Generation, emit func(id int32) error) (runtimes.Stop, error) {
	if opt.Follow != nil {
		return "", &runtimes.Unavailable{What: "schema-constrained text", Why: "the engine runs in another process, without the grammar", Hint: "--backend core supports schemas"}
	}
	c, err := s.at(ctx)
	if err != nil {
		return "", err
	}
	inner, emit, end := runtimes.Stepwise(ctx, s.m.limit(), emit)
	defer end()
	before := len(s.ids)
	emitted := 0
	reply, _, err := c.call(inner, wire.Request{Op: wire.OpGenerate, Sequence: s.id, Generation: &opt}, nil, func(id int32) error {
		if id < 0 || int(id) >= s.m.shape.Vocab || before+emitted > s.context {
			err := fmt.Errorf("the engine returned token %d at position %d", id, before+emitted)
			c.kill(err)
			return err
		}
		s.ids = append(s.ids, id)
		emitted++
		return emit(id)
	})
	// The child may be ahead of the emitted tokens, or lack the last one.
	held := before + emitted
	switch {
	case reply == nil:
		s.lost()
	case reply.Len < held-1 || reply.Len < before:
		c.kill(fmt.Errorf("the engine holds %d of %d positions", reply.Len, held))
		s.lost()
	case reply.Len > held:
		s.align(c, held)
	default:
		held = reply.Len
	}
	s.cut(min(held, s.context))
	if err != nil {
		return "", s.m.mapErr(ctx, inner, generating, err)
	}
	return reply.Stop, nil
}

// Logits returns the logits after the last position.
func (s *sequence) Logits(ctx context.Context) ([]float32, error) {
	c, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	inner, end := s.m.bounded(ctx)
	defer end()
	reply, data, err := c.call(inner, wire.Request{Op: wire.OpLogits, Sequence: s.id}, nil, nil)
	if reply == nil {
		s.lost()
	}
	if err == nil && len(data) != 4*s.m.shape.Vocab {
		err = fmt.Errorf("got %d bytes of logits for %d tokens", len(data), s.m.shape.Vocab)
	}
	if err != nil {
		return nil, s.m.mapErr(ctx, inner, computing, err)
	}
	return wire.Numbers[float32](data), nil
}

// Hidden returns the states of positions, if the engine provides them.
func (s *sequence) Hidden(from, to int) ([]float32, error) {
	if !s.opt.Hidden {
		return nil, errors.New("the sequence keeps no hidden states")
	}
	if from < 0 || to < from || to > len(s.ids) {
		return nil, fmt.Errorf("hidden states %d to %d out of range: %d positions", from, to, len(s.ids))
	}
	ctx := context.Background()
	c, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	inner, end := s.m.bounded(ctx)
	defer end()
	reply, data, err := c.call(inner, wire.Request{Op: wire.OpHidden, Sequence: s.id, From: from, N: to}, nil, nil)
	if reply == nil {
		s.lost()
	}
	if want := 4 * (to - from) * s.m.shape.Width; err == nil && len(data) != want {
		err = fmt.Errorf("got %d bytes of hidden states, want %d", len(data), want)
	}
	if err != nil {
		return nil, s.m.mapErr(ctx, inner, computing, err)
	}
	return wire.Numbers[float32](data), nil
}

// Close frees the sequence. If the request fails, the sequence ends with the child.
func (s *sequence) Close() error {
	if s.closed {
		return nil
	}
	s.closed, s.ids, s.vectors = true, nil, nil
	if c, _ := s.m.current(); c != nil && c == s.in {
		ctx, end := context.WithTimeout(context.Background(), s.m.opt.Grace)
		defer end()
		c.call(ctx, wire.Request{Op: wire.OpClose, Sequence: s.id}, nil, nil)
	}
	return nil
}
