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
	need := s.cache.missing(s.Len(), r.before+r.rows) * size
	if s.state.now == nil {
		need += s.state.most()
	}
	for need > 0 && m.kvUsed(s)+need > m.kvLimit {
		if len(m.prefixes.all) > 0 {
			m.prefixes.all = slices.Delete(m.prefixes.all, 0, 1)
			continue
		}
		v := m.victim(s)
		if v == nil {
			return false, nil
		}
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

// spare makes room for further contents of s by dropping kept prefixes.
func (m *Model) spare(s *Session, need int) error {
	for m.kvLimit > 0 && m.kvUsed(s)+need > m.kvLimit {
		if len(m.prefixes.all) == 0 {
			return fmt.Errorf("%w: a snapshot takes %d bytes, limit %d", ErrMemory, need, m.kvLimit)
		}
		m.prefixes.all = slices.Delete(m.prefixes.all, 0, 1)
	}
	return nil
}

// kvUsed returns the memory of the keys and values of all sessions, also of s if
// not nil, and of prefixes.
func (m *Model) kvUsed(s *Session) int {
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

// victim returns the session whose keys and values s may replace: the first that
// is idle, or the last that began after s, or nil.
func (m *Model) victim(s *Session) *Session {
	for _, v := range m.holders {
		if v != s && !v.fixed && v.users.Load() == 0 {
			return v
		}
	}
	for _, v := range slices.Backward(m.holders) {
		if s.admitted == 0 || v.admitted <= s.admitted {
			break
		}
		if !v.fixed {
			return v
		}
	}
	return nil
}

// stuck reports whether no session will free memory for pending readings: all
// that hold any are idle, or wait too.
func (m *Model) stuck(pending []*reading) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !slices.ContainsFunc(m.holders, func(h *Session) bool {
		return h.users.Load() > 0 && !slices.ContainsFunc(pending, func(r *reading) bool { return r.s == h })
	})
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
	if s.keepHidden {
		s.unseen = min(s.unseen, from)
		s.hidden = s.hidden[:(from-s.unseen)*s.m.cfg.Width]
	}
}

// undo restores the positions that the session had before a reading.
func (r *reading) undo() {
	s := r.s
	if r.again == 0 {
		s.cut(r.before)
		return
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	tokens := r.in[0].Tokens
	s.cut(r.before)
	s.tokens = append(s.tokens, tokens...)
	s.lost = s.state.size == 0 || r.before == 0 && s.state.now == nil
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
