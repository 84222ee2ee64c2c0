package infer

import (
	"slices"

	"mm-abi.org/mm/core/tensor"
)

// Sharing of keys and values between sessions whose texts begin with the same
// tokens. Chunks are shared as they are; a session copies a chunk before it
// writes to positions that others read. Texts that arrive together share too: a
// reading waits for an earlier one that computes the same beginning.

const (
	leastShare = 32 // positions that are worth sharing
	leastKeep  = 64 // positions that are worth keeping

	// defaultPrefixes is the memory of texts that no session holds.
	defaultPrefixes = 128 << 20
)

// prefixes keeps the keys and values of texts for sessions that begin the same,
// within a limit of memory.
type prefixes struct {
	all   []prefix // most recently used last
	limit int      // bytes
}

// prefix is a text with its keys and values.
type prefix struct {
	kind   cacheKind
	tokens []int32
	chunks [][]byte
	state  []float32 // after the tokens, or nil
}

// cacheKind holds the properties of a session that determine the keys of a text.
type cacheKind struct {
	typ  tensor.Type
	long bool // rotations of a long context
}

// common returns the number of tokens that two texts begin with.
func common(a, b []int32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] && a[n] != vector {
		n++
	}
	return n
}

// find returns the index of the text with the longest common beginning, and its
// length.
func (p *prefixes) find(kind cacheKind, text []int32) (best, n int) {
	for i := range p.all {
		if e := &p.all[i]; e.kind == kind {
			if c := common(e.tokens, text); c > n && (e.state == nil || c == len(e.tokens)) { // states are of all of a text
				best, n = i, c
			}
		}
	}
	return best, n
}

// use returns a text, which becomes the most recently used.
func (p *prefixes) use(i int) prefix {
	e := p.all[i]
	p.all = append(slices.Delete(p.all, i, i+1), e)
	return e
}

// keep adds the first n positions of a session, unless most of them are kept
// already.
func (p *prefixes) keep(s *Session, n int) {
	if len(s.blocks) > 0 { // later positions have other places, or see each other
		n = min(n, s.blocks[0].first)
	}
	if at := slices.Index(s.tokens[:n], vector); at >= 0 {
		n = at
	}
	var state []float32
	if s.state.size > 0 {
		if n, state = s.state.last(n); state == nil {
			return
		}
	}
	if _, kept := p.find(s.kind(), s.tokens[:n]); n-kept < leastKeep || kvChunks(n)*s.cache.ChunkBytes()+4*len(state) > p.limit {
		return
	}
	p.all = slices.DeleteFunc(p.all, func(e prefix) bool { // the new text begins with it
		return e.state == nil && e.kind == s.kind() && len(e.tokens) <= n && common(e.tokens, s.tokens) == len(e.tokens)
	})
	p.all = append(p.all, prefix{kind: s.kind(), tokens: slices.Clone(s.tokens[:n]), chunks: s.cache.Lend(n), state: state})
	for p.bytes() > p.limit {
		p.all = slices.Delete(p.all, 0, 1)
	}
}

// keep adds the first n positions of a session to the kept texts, of which the oldest make
// room for its state.
func (m *Model) keep(s *Session, n int) {
	m.prefixes.keep(s, n)
	for m.kvLimit > 0 && len(m.prefixes.all) > 0 && m.kvUsed(nil) > m.kvLimit {
		m.prefixes.all = slices.Delete(m.prefixes.all, 0, 1)
	}
}

// bytes returns the memory of all texts.
func (p *prefixes) bytes() int {
	n, seen := 0, map[*byte]bool{}
	for _, e := range p.all {
		for _, c := range e.chunks {
			if len(c) > 0 && !seen[&c[0]] {
				seen[&c[0]] = true
				n += len(c)
			}
		}
		n += 4 * len(e.state)
	}
	return n
}

func (s *Session) kind() cacheKind {
	return cacheKind{s.cache.typ, s.context > s.m.cfg.Rope.OriginalContext}
}

// Shared returns the number of positions of the last feed that were taken from
// other sessions.
func (s *Session) Shared() int { return s.shared }

// Reusable returns the number of tokens that a feed into the empty session would take
// from the kept texts of closed and restored sessions.
func (s *Session) Reusable(tokens []int32) int {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	_, n := s.m.prefixes.find(s.kind(), tokens)
	return n
}

// Close frees the keys and values, or keeps them for later sessions. The
// session must not be used afterwards.
func (s *Session) Close() {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if !s.m.closed && !s.lost {
		s.m.keep(s, len(s.tokens))
	}
	s.cache.Release(0)
	s.state.drop()
	s.m.holders = slices.DeleteFunc(s.m.holders, func(h *Session) bool { return h == s })
	s.tokens, s.valid = nil, false
}

// join begins a reading with the longest beginning of its text that others have
// computed. It reports false if an earlier one of the pending readings is about
// to compute more.
func (m *Model) join(r *reading, earlier []*reading) bool {
	s := r.s
	if r.begun && !s.lost {
		return true
	}
	if s.lost {
		r.redo(0)
		r.text = nil
	}
	if len(r.blocks) > 0 || s.observer != nil || slices.ContainsFunc(r.in, func(x Input) bool { return x.Vectors != nil }) {
		s.fixed = true
	}
	most := r.before + r.rows - max(r.keep, 1) // positions that can be shared
	if m.prefixes.limit < 0 || most-r.before < leastShare || s.observer != nil || s.keepHidden || len(s.blocks) > 0 {
		return m.start(r)
	}
	if r.awaits(earlier) {
		return false
	}
	r.flatten()
	most = min(most, len(r.text))
	at, n := m.prefixes.find(s.kind(), r.text[:most])
	var from *Session
	for _, o := range earlier {
		if o.s.lost || o.text == nil || s.state.size > 0 || o.s.kind() != s.kind() {
			continue // a session that a later reading preempted has no keys
		}
		c := common(o.text, r.text[:most])
		switch ready := min(c, o.s.Len()); {
		case c >= max(n, s.Len())+leastShare && c > ready: // and may be found in a later step
			r.after, r.until = o.number, c
			return false
		case ready > n:
			from, n = o.s, ready
		}
	}
	if n >= s.Len()+leastShare {
		if from != nil {
			s.cache.Borrow(from.cache.Lend(n))
		} else {
			e := m.prefixes.use(at)
			s.cache.Borrow(e.chunks[:kvChunks(n)])
			s.state.adopt(n, e.state)
		}
		s.tokens = append(s.tokens, r.text[s.Len():n]...)
		r.read = n - r.before
		s.shared = r.read
		r.to = r.read
	}
	return m.start(r)
}

// start begins a reading if there is memory.
func (m *Model) start(r *reading) bool {
	var ok bool
	if ok, r.err = m.fit(r); !ok {
		r.done = r.err != nil
		if !slices.Contains(m.holders, r.s) { // while it waits, it shares nothing
			r.s.cache.Release(0)
			r.s.state.drop()
			r.s.tokens = r.s.tokens[:r.before]
			r.read, r.to, r.s.shared = 0, 0, 0
		}
		return false
	}
	r.begin()
	return true
}

// awaits reports whether the reading that r waits for is still computing the
// common beginning.
func (r *reading) awaits(earlier []*reading) bool {
	for _, o := range earlier {
		if o.number == r.after && r.after != 0 {
			return o.s.Len() < r.until
		}
	}
	return false
}

// flatten sets text to the tokens of the session and of the inputs, up to the
// first block.
func (r *reading) flatten() {
	if r.text != nil {
		return
	}
	r.text = append(r.s.text[:0], r.s.tokens...)
	for i := range r.in {
		if r.in[i].Tokens != nil {
			r.text = append(r.text, r.in[i].Tokens...)
			continue
		}
		r.text = append(r.text, slices.Repeat([]int32{vector}, r.s.m.rowsOf(&r.in[i]))...)
	}
	r.s.text = r.text
	if len(r.blocks) > 0 {
		r.text = r.text[:r.blocks[0].first]
	}
}
