package infer

import (
	"context"
	"slices"
)

// state is the memory of the layers with a state of a session's positions. It cannot
// be cut: an earlier position is a mark, from which the following tokens are
// computed again.
type state struct {
	size  int       // numbers; 0: the model has no such layers
	now   []float32 // nil if dropped
	at    int       // positions that now holds, or dirty
	solid int       // positions whose keys and values are stored; in a pass all are
	begun mark      // the beginning of the last reading of several rows
	long  mark      // the last row but one of the last long reading, never changed
}

// mark is a state after some positions; nil if none.
type mark struct {
	at  int
	old []float32
}

const (
	dirty     = -1 // the state is of a pass that did not complete
	longState = 33 // rows of a reading that is marked before its last row
)

// most returns the memory that a session's states may take: one and two marks.
func (s *state) most() int { return 3 * 4 * s.size }

// bytes returns the memory that is reserved for them.
func (s *state) bytes() int {
	if s.now == nil {
		return 0
	}
	return s.most()
}

// drop frees the memory.
func (s *state) drop() { *s = state{size: s.size} }

// cut forgets what follows position n, and returns the position from which the
// session's tokens must be computed again to get there.
func (s *state) cut(n int) int {
	for _, m := range []*mark{&s.begun, &s.long} {
		if m.at > n {
			*m = mark{}
		}
	}
	s.solid = min(s.solid, n)
	if s.at == n {
		return n
	}
	return max(s.begun.at, s.long.at)
}

// restore makes now the state of the last mark up to position n, whose keys and
// values are stored, and returns its position.
func (s *state) restore(n int) int {
	from := s.nearest(n)
	if s.now != nil && s.at == from.at && from.old == nil && from.at > 0 {
		return s.at
	}
	if s.now == nil {
		s.now = make([]float32, s.size)
	}
	if s.at = from.at; from.old != nil {
		copy(s.now, from.old)
	} else {
		clear(s.now)
	}
	return s.at
}

// nearest returns the mark from which restore computes position n: without a state, now is
// already there, or the text begins.
func (s *state) nearest(n int) (from mark) {
	n = min(n, s.solid)
	if s.now != nil && s.at == n {
		return mark{at: n}
	}
	for _, m := range []mark{s.begun, s.long} {
		if m.old != nil && m.at <= n && m.at > from.at {
			from = m
		}
	}
	return from
}

// settle begins a reading at the position of the session's state: the tokens
// after it are computed again.
func (r *reading) settle() {
	s := r.s
	if s.state.size == 0 {
		return
	}
	if r.read == 0 { // otherwise others computed the state
		r.redo(s.state.restore(r.before))
	}
	n := r.before + r.read
	if s.state.solid = n; r.left() > 1 && n > 0 {
		s.state.begun = mark{at: n, old: append(s.state.begun.old[:0], s.state.now...)}
	}
	if r.left() >= longState {
		r.pause = r.rows - 1
	}
}

// last returns a position up to n and the state after it, or nil: the one before
// the last row of a long reading, so that the same text can begin with it, or n.
func (s *state) last(n int) (int, []float32) {
	switch {
	case s.long.old != nil && s.long.at == n-1:
	case s.now != nil && s.at == n && n <= s.solid:
		return n, slices.Clone(s.now)
	case s.long.old == nil || s.long.at > n:
		return 0, nil
	}
	return s.long.at, s.long.old
}

// adopt sets the state after n positions, which does not change.
func (s *state) adopt(n int, old []float32) {
	if s.size == 0 {
		return
	}
	s.now = append(s.now[:0], old...)
	s.at, s.solid, s.begun, s.long = n, n, mark{}, mark{at: n, old: old}
}

// passes marks the state as one that the pass changes.
func (s *state) passes() []float32 {
	if s.size == 0 {
		return nil
	}
	s.at = dirty
	return s.now
}

// passed sets the positions that the state holds after a pass.
func (r *reading) passed() {
	st := &r.s.state
	if st.size == 0 {
		return
	}
	st.at = r.before + r.read
	st.solid = st.at
	if r.read == r.pause && r.pause > 0 {
		st.long = mark{at: st.at, old: slices.Clone(st.now)}
	}
}

// unsettled reports whether tokens must be computed again before a session's
// state holds all of them.
func (s *Session) unsettled() bool {
	return s.state.size > 0 && (s.state.now == nil || s.state.at != len(s.tokens) || s.state.solid < len(s.tokens))
}

// recall computes the last token again.
func (s *Session) recall(ctx context.Context, last int32) error {
	s.cut(len(s.tokens) - 1)
	if err := s.Feed(ctx, []int32{last}); err != nil {
		s.tokens = append(s.tokens, last)
		return err
	}
	return nil
}
