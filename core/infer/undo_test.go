package infer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// begun starts a reading of a session as a caller does, and computes one pass of it.
func begun(t *testing.T, s *Session, keep int, each func(int, []float32), in ...Input) *reading {
	t.Helper()
	r := &s.current
	if err := s.reading(r, in, keep, each); err != nil {
		t.Fatal(err)
	}
	s.users.Add(1)
	r.ctx, r.number = t.Context(), 1
	if !s.m.pass([]*reading{r}, 0) || r.read == 0 || r.done {
		t.Fatalf("got %d of %d rows, done: %t", r.read, r.rows, r.done)
	}
	return r
}

// lose preempts a session whose text nothing else holds.
func lose(s *Session) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.preempt(s)
	s.m.prefixes.all = nil
}

// TestRowsOnce: a reading that is preempted after some rows does not hand them out again.
func TestRowsOnce(t *testing.T) {
	m, _ := pair(t, Options{Threads: 1})
	m.kvLimit = 1 << 30
	s := session(t, m, SessionOptions{})
	if err := s.Feed(t.Context(), draw(70, 40)); err != nil {
		t.Fatal(err)
	}
	var rows, want []int
	r := begun(t, s, 600, func(row int, _ []float32) { rows = append(rows, row) }, Input{Tokens: draw(600, 40)})
	first := len(rows)
	for lose(s); !r.done; {
		m.pass([]*reading{r}, 0)
	}
	for i := range 600 {
		want = append(want, i)
	}
	if first == 0 || !slices.Equal(rows, want) {
		t.Errorf("got %d rows and then %d, want each of 600 once", first, len(rows)-first)
	}
}

// TestUndoFixed: a session that did not read its vectors can be preempted as before.
func TestUndoFixed(t *testing.T) {
	m, _ := pair(t, Options{Threads: 1})
	m.kvLimit = 1 << 30
	s := session(t, m, SessionOptions{})
	if err := s.Feed(t.Context(), draw(300, 40)); err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} {
		if again {
			lose(s)
		}
		r := begun(t, s, 1, nil, Input{Tokens: draw(300, 40)}, Input{Vectors: make([]float32, 3*m.cfg.Width)})
		if !s.fixed {
			t.Error("vectors can be computed again")
		}
		if r.undo(); s.fixed || s.Len() != 300 || s.lost != again {
			t.Errorf("fixed: %t, %d positions, lost: %t", s.fixed, s.Len(), s.lost)
		}
		s.users.Add(-1)
	}
}

// TestBatchWithoutMemory: a batch of which one session holds the memory that the other
// waits for is refused, and both are unchanged.
func TestBatchWithoutMemory(t *testing.T) {
	m, _ := pair(t, Options{Threads: 1})
	a, b := session(t, m, SessionOptions{}), session(t, m, SessionOptions{})
	m.kvLimit = 2 * a.cache.ChunkBytes()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := m.FeedBatch(ctx, Feed{a, []Input{{Tokens: draw(300, 40)}}}, Feed{b, []Input{{Tokens: draw(10, 40)}}})
	if !errors.Is(err, ErrMemory) || a.Len() != 0 || b.Len() != 0 {
		t.Errorf("got %v, %d and %d positions", err, a.Len(), b.Len())
	}
}

// TestUndoState: after a reading of a model with states that began with earlier positions is
// undone, nothing of it is kept for others, and hidden states are those that were computed.
func TestUndoState(t *testing.T) {
	cfg := small("lfm2")
	m, err := New(cfg, weightsOf(cfg, 1), Options{Threads: 1, KVMemory: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := session(t, m, SessionOptions{})
	if err := s.Feed(t.Context(), draw(100, 40)); err != nil {
		t.Fatal(err)
	}
	lose(s)
	r := begun(t, s, 1, nil, Input{Tokens: []int32{1}}) // it pauses before the last row, after 100
	r.undo()
	s.users.Add(-1)
	if s.Close(); len(m.prefixes.all) != 0 {
		t.Errorf("kept %d texts without keys", len(m.prefixes.all))
	}

	h := session(t, m, SessionOptions{Hidden: true})
	if err := h.Feed(t.Context(), draw(60, 40)); err != nil {
		t.Fatal(err)
	}
	want, err := h.Hidden(0, 50)
	if err != nil {
		t.Fatal(err)
	}
	h.Truncate(50)
	r = begun(t, h, 1, nil, Input{Tokens: draw(600, 40)})
	r.undo()
	h.users.Add(-1)
	if _, err := h.Hidden(0, 50); h.Len() != 50 || err == nil {
		t.Errorf("got %d positions, %v, want 50 without states", h.Len(), err)
	}
	if h.Truncate(49); len(h.hidden) != 0 {
		t.Errorf("got %d numbers of states, want none", len(h.hidden))
	}
	if err := h.Feed(t.Context(), draw(60, 40)[49:52]); err != nil {
		t.Fatal(err)
	}
	if got, err := h.Hidden(0, 50); err != nil || !slices.Equal(got, want) {
		t.Errorf("the states differ: %v", err)
	}
}
