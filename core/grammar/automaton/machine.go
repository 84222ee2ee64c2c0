package automaton

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Machine runs a program. It is not safe for concurrent use.
type Machine struct {
	p      *Program
	frames map[frameKey]*frame
	words  map[word]*word
	states map[string]*State
	last   uint64 // id of a frame
	start  *State

	set    []thread // of the state being built
	seen   map[thread]struct{}
	accept bool
	ended  uint8 // keys ended on the path to accept
	key    []byte
}

// State is a position in a text. It belongs to its machine.
type State struct {
	threads []thread
	accept  bool
	keyed   bool     // a key is being recorded: bytes of a class differ
	ended   uint8    // see [State.Left]
	next    []*State // by class of byte; nil: unknown
	few     []step   // of a keyed state, which rarely recurs
	parts   []*State
	blurred []blurred
	// Cache is for the caller's use.
	Cache [3]any
}

type step struct {
	by byte
	to *State
}

// blurred caches a state's blurred state for a length.
type blurred struct {
	bytes int
	to    *State
}

// thread is a possible position of a text.
type thread struct {
	node  int32
	frame *frame
}

// dead is the state of texts outside the grammar.
var dead = &State{}

// Limits of a machine's cache.
const (
	maxThreads = 2048
	maxStates  = 1 << 16
	maxFrames  = 1 << 18
)

// Run returns a machine for a program.
func (p *Program) Run() *Machine {
	m := &Machine{p: p, seen: make(map[thread]struct{})}
	m.Forget()
	return m
}

// Forget empties the cache. States held by the caller remain valid.
func (m *Machine) Forget() {
	m.frames = make(map[frameKey]*frame)
	m.words = make(map[word]*word)
	m.states = make(map[string]*State)
	m.start = nil
}

// Start returns the state of the empty text.
func (m *Machine) Start() *State {
	if m.start == nil {
		m.begin()
		m.enter(m.p.rules[m.p.start].start, m.frame(frameKey{rule: m.p.start, back: None, max: Unbounded}))
		m.start = m.state()
	}
	return m.start
}

// Step returns the state after a byte, or nil if the byte is not allowed.
func (m *Machine) Step(s *State, b byte) *State {
	if next := m.step(s, b); next != dead {
		return next
	}
	return nil
}

func (m *Machine) step(s *State, b byte) *State {
	if s.keyed {
		for _, step := range s.few {
			if step.by == b {
				return step.to
			}
		}
		to := m.after(s, b)
		s.few = append(s.few, step{b, to})
		return to
	}
	if s.next == nil {
		s.next = make([]*State, m.p.classes)
	}
	next := &s.next[m.p.class[b]]
	if *next == nil {
		*next = m.after(s, b)
	}
	return *next
}

// after computes the state after a byte.
func (m *Machine) after(s *State, b byte) *State {
	m.begin()
	for _, t := range s.threads {
		n := &m.p.nodes[t.node]
		for _, e := range n.edges {
			if b < e.lo || b > e.hi {
				continue
			}
			f := t.frame
			if f.records() {
				k := f.frameKey
				k.text = m.word(k.text, string([]byte{b}))
				f = m.frame(k)
			}
			m.enter(e.to, f)
		}
		if n.leave.to != None && b == n.leave.lo {
			m.leave(n.leave.to, t.frame)
		}
	}
	return m.state()
}

// begin starts building a state.
func (m *Machine) begin() {
	if len(m.states) > maxStates || len(m.frames) > maxFrames {
		m.Forget()
	}
	m.set, m.accept, m.ended = m.set[:0], false, maxEnded
	clear(m.seen)
}

// enter adds a position to the state, and those reachable without a byte.
func (m *Machine) enter(at int32, f *frame) {
	if f.height+m.p.need[at] > m.p.depth || !m.p.ends(at, f) {
		return
	}
	t := thread{at, f}
	if _, ok := m.seen[t]; ok || len(m.set) >= maxThreads {
		return
	}
	m.seen[t] = struct{}{}
	n := &m.p.nodes[at]
	if len(n.edges) > 0 || n.leave.to != None {
		m.set = append(m.set, t)
	}
	for _, to := range n.empty {
		m.enter(to, f)
	}
	for i := range n.calls {
		m.call(&n.calls[i], f)
	}
	if n.loop != nil {
		m.turn(n.loop, f)
	}
	switch {
	case n.end && f.parent == nil:
		m.accept, m.ended = true, min(m.ended, f.ended)
	case n.end:
		m.enter(f.back, f.parent)
	}
}

// call enters a rule.
func (m *Machine) call(c *call, f *frame) {
	if f.height+m.p.through(c) > m.p.depth {
		return
	}
	m.enter(m.p.rules[c.rule].start, m.frame(frameKey{parent: f, rule: c.rule, back: c.back, min: c.min, max: c.max, key: c.key, ended: f.ended}))
}

// turn repeats a loop or exits it.
func (m *Machine) turn(l *loop, f *frame) {
	if f.max != 0 && l.body != None {
		k := f.frameKey
		k.min = max(0, k.min-1)
		if k.max != Unbounded {
			k.max--
		}
		m.enter(l.body, m.frame(k))
	}
	if f.min == 0 && l.exit != None {
		m.enter(l.exit, f)
	}
}

// state returns the unique state of the entered positions.
func (m *Machine) state() *State {
	if len(m.set) == 0 && !m.accept {
		return dead
	}
	slices.SortFunc(m.set, func(a, b thread) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.frame.id, b.frame.id))
	})
	m.key = m.key[:0]
	for _, t := range m.set {
		m.key = binary.LittleEndian.AppendUint32(m.key, uint32(t.node))
		m.key = binary.LittleEndian.AppendUint64(m.key, t.frame.id)
	}
	if m.accept {
		m.key = append(m.key, m.ended)
	}
	if s, ok := m.states[string(m.key)]; ok {
		return s
	}
	s := &State{threads: slices.Clone(m.set), accept: m.accept, ended: m.ended}
	for _, t := range s.threads {
		s.keyed = s.keyed || t.frame.records()
		s.ended = min(s.ended, t.frame.ended)
	}
	m.states[string(m.key)] = s
	return s
}

// Keys reports whether the grammar has distinct keys.
func (m *Machine) Keys() bool { return m.p.keys }

// Accepts reports whether the text may end here.
func (s *State) Accepts() bool { return s.accept }

// Done reports whether the text must end here.
func (s *State) Done() bool { return len(s.threads) == 0 }

// Near returns the bytes on the edges of a state; no others may follow it. Some
// bytes that end a key may be refused.
func (m *Machine) Near(s *State) (out [4]uint64) {
	for _, t := range s.threads {
		for e := range m.p.nodes[t.node].ways {
			for b := int(e.lo); b <= int(e.hi); b++ {
				out[b>>6] |= 1 << (b & 63)
			}
		}
	}
	return out
}

// Only returns the single byte that may follow a state that does not accept.
func (m *Machine) Only(s *State) (only byte, ok bool) {
	if s.accept {
		return 0, false
	}
	for _, t := range s.threads {
		for e := range m.p.nodes[t.node].ways {
			for b := int(e.lo); b <= int(e.hi); b++ {
				switch {
				case ok && byte(b) == only || m.step(s, byte(b)) == dead:
				case ok:
					return 0, false
				default:
					only, ok = byte(b), true
				}
			}
		}
	}
	return only, ok
}

// Parts returns states of one position each that together form a state. They
// never accept.
func (m *Machine) Parts(s *State) []*State {
	if s.parts == nil {
		for _, t := range s.threads {
			m.begin()
			m.set = append(m.set, t)
			s.parts = append(s.parts, m.state())
		}
	}
	return s.parts
}

// Free reports that any unescaped characters of JSON strings may follow a
// state, at most n of them; n is [Unbounded] without a limit.
func (m *Machine) Free(s *State) (n int, ok bool) {
	for _, t := range s.threads {
		switch f := t.frame; {
		case !m.p.nodes[t.node].free || f.ended != s.ended || f.height+m.p.within[t.node] > m.p.depth:
		case f.max == Unbounded:
			return int(Unbounded), true
		default:
			n, ok = max(n, int(f.max)+1), true
		}
	}
	return n, ok
}
