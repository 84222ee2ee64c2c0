package infer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrMemory reports that keys and values do not fit into [Options.KVMemory].
var ErrMemory = errors.New("no memory for keys and values")

// Sessions that do not fit into the limit of memory wait. If a session needs
// more while it generates, kept prefixes are dropped, then the keys and values
// of idle sessions, then those of sessions that began later: their texts are
// computed again when they go on, with the same result.

// fit makes room for the positions that r needs. It reports false if r must
// wait, and an error if it can never fit.
func (m *Model) fit(r *reading) (bool, error) {
	if m.kvLimit == 0 {
		return true, nil
	}
	s, size := r.s, r.s.cache.ChunkBytes()
	if all := kvChunks(r.before+r.rows)*size + s.state.most(); all > m.kvLimit {
		return false, fmt.Errorf("%w: %d positions take %d bytes, limit %d", ErrMemory, r.before+r.rows, all, m.kvLimit)
	}
	from := s.Len()
	if s.state.size > 0 && r.read == 0 {
		from = s.state.nearest(r.before).at // see settle
	}
	need := s.cache.missing(from, r.before+r.rows) * size
	if s.state.now == nil {
		need += s.state.most()
	}
	var victims []*Session
	for need > 0 && m.kvUsed(s, victims...)+need > m.kvLimit {
		if len(m.prefixes.all) > 0 {
			m.prefixes.all = slices.Delete(m.prefixes.all, 0, 1)
			continue
		}
		v := m.victim(s, victims)
		if v == nil {
			return false, nil // all of them would not suffice: they continue
		}
		victims = append(victims, v)
	}
	for _, v := range victims {
		m.preempt(v)
	}
	m.hold(s)
	return true, nil
}

// hold counts the keys and values of s, if their memory is limited.
func (m *Model) hold(s *Session) {
	if m.kvLimit == 0 {
		return
	}
	if s.admitted == 0 {
		m.admitted++
		s.admitted = m.admitted
	}
	if !slices.Contains(m.holders, s) {
		m.holders = append(m.holders, s)
		slices.SortFunc(m.holders, func(a, b *Session) int { return cmp.Compare(a.admitted, b.admitted) })
	}
}

// spare makes room for a snapshot of a number of chunks in s by dropping kept prefixes.
func (m *Model) spare(s *Session, chunks int) error {
	need := chunks * s.cache.ChunkBytes()
	if s.state.now == nil {
		need += s.state.most()
	}
	for m.kvLimit > 0 && m.kvUsed(s)+need > m.kvLimit {
		if len(m.prefixes.all) == 0 {
			return fmt.Errorf("%w: a snapshot takes %d bytes, limit %d", ErrMemory, need, m.kvLimit)
		}
		m.prefixes.all = slices.Delete(m.prefixes.all, 0, 1)
	}
	return nil
}

// kvUsed returns the memory of the keys and values of prefixes and of all sessions but
// some, also of s if not nil.
func (m *Model) kvUsed(s *Session, but ...*Session) int {
	n, seen := 0, map[*byte]bool{}
	count := func(chunks [][]byte) {
		for _, c := range chunks {
			if len(c) > 0 && !seen[&c[0]] {
				seen[&c[0]] = true
				n += len(c)
			}
		}
	}
	for _, h := range m.holders {
		if slices.Contains(but, h) {
			continue
		}
		h.hold.Lock()
		count(h.cache.chunks)
		h.hold.Unlock()
		n += h.state.bytes()
	}
	if s != nil {
		if count(s.cache.chunks); !slices.Contains(m.holders, s) {
			n += s.state.bytes()
		}
	}
	for _, p := range m.prefixes.all {
		count(p.chunks)
		n += 4 * len(p.state)
	}
	return n
}

// victim returns a session whose keys and values s may replace, apart from some: the first
// that is idle, or the last that began after s, or nil.
func (m *Model) victim(s *Session, but []*Session) *Session {
	for _, v := range m.holders {
		if v != s && !v.fixed && v.users.Load() == 0 && !slices.Contains(but, v) {
			return v
		}
	}
	for _, v := range slices.Backward(m.holders) {
		if s.admitted == 0 || v.admitted <= s.admitted {
			break
		}
		if !v.fixed && !slices.Contains(but, v) {
			return v
		}
	}
	return nil
}

// stuck reports whether no session will free memory for pending readings: all
// that hold any are idle, or wait too, perhaps for others of their call.
func (m *Model) stuck(pending []*reading) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	waits := func(h *Session) bool {
		return slices.ContainsFunc(pending, func(r *reading) bool {
			return slices.ContainsFunc(r.all, func(o *reading) bool { return o.s == h })
		})
	}
	return !slices.ContainsFunc(m.holders, func(h *Session) bool { return h.users.Load() > 0 && !waits(h) })
}

// loser returns the reading that ends if all are stuck: of those whose calls hold memory
// that others cannot take, the one that began last, otherwise the last reading.
func (m *Model) loser(pending []*reading) *reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, began := pending[len(pending)-1], uint64(0)
	for _, r := range pending {
		for _, o := range r.all {
			if held := o.s.fixed || len(r.all) > 1; held && o.s.admitted > began && slices.Contains(m.holders, o.s) {
				last, began = r, o.s.admitted
			}
		}
	}
	return last
}

// preempt frees the keys and values of a session, which are computed again when
// it reads.
func (m *Model) preempt(s *Session) {
	s.hold.Lock()
	s.cache.Release(0)
	s.state.drop()
	s.hold.Unlock()
	s.lost = true
	m.holders = slices.DeleteFunc(m.holders, func(h *Session) bool { return h == s })
}

// redo makes a reading compute the positions of its session from from on again.
func (r *reading) redo(from int) {
	s := r.s
	s.lost = false
	if n := r.before - from; n > 0 {
		tokens := slices.Clone(s.tokens[from:r.before])
		if r.again > 0 {
			r.in = slices.Clone(r.in)
			r.in[0].Tokens = append(tokens, r.in[0].Tokens...)
		} else {
			r.in = slices.Concat([]Input{{Tokens: tokens}}, r.in)
		}
		r.again += n
		r.rows += n
	}
	r.before, r.read, r.to, r.begun = from, 0, 0, false
	s.tokens = s.tokens[:from]
	s.cutHidden(from)
}

// undo restores the positions that the session had before a reading.
func (r *reading) undo() {
	s := r.s
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.cut(r.before)
	s.fixed = s.keepHidden || s.observer != nil || len(s.blocks) > 0 || slices.Contains(s.tokens, vector)
	if r.again == 0 {
		return
	}
	s.tokens = append(s.tokens, r.in[0].Tokens...)
	if s.lost = s.state.size == 0 || r.before == 0 && s.state.now == nil; s.lost {
		s.m.holders = slices.DeleteFunc(s.m.holders, func(h *Session) bool { return h == s })
	}
}

// restore computes the positions of a session again if they were preempted.
func (s *Session) restore(r *reading) bool {
	from := 0
	switch {
	case s.lost:
	case s.unsettled():
		if from = s.state.restore(len(s.tokens)); from == len(s.tokens) {
			return false
		}
	default:
		return false
	}
	tokens := slices.Clone(s.tokens[from:])
	*r = reading{s: s, in: []Input{{Tokens: tokens}}, keep: 1, before: from, rows: len(tokens), again: len(tokens)}
	s.tokens, s.lost = s.tokens[:from], false
	return true
}

// raw returns the chunks of the session for a snapshot, with nothing after its
// last position, and its state. The chunks may not be changed.
func (s *Session) raw() ([][]byte, []float32, error) {
	s.users.Add(1)
	defer s.users.Add(-1)
	s.m.mu.Lock() // others may write to shared chunks
	defer s.m.mu.Unlock()
	for s.restore(&s.current) {
		s.m.mu.Unlock()
		s.readings[0] = &s.current
		err := s.m.read(context.Background(), s.readings[:], s.wake)
		s.m.mu.Lock()
		if err != nil {
			return nil, nil, err
		}
	}
	s.cache.Release(len(s.tokens))
	s.cache.Blank(len(s.tokens))
	return slices.Clone(s.cache.chunks), slices.Clone(s.state.now), nil
}
