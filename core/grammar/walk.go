package grammar

import (
	"math/bits"

	"mm-abi.org/mm/core/grammar/automaton"
)

// found is the result of a walk from a blurred state.
type found struct {
	few  []int32 // tokens that may follow, or
	many Bitset
	once []int32 // others, which end one key
	more []int32 // and those that end several
}

// bytes returns the memory of the result.
func (f *found) bytes() int { return 8*len(f.many) + 4*(len(f.few)+len(f.once)+len(f.more)) }

// addTo adds all of them to a set.
func (f *found) addTo(b Bitset) {
	if f.many != nil {
		b.union(f.many)
	}
	b.addAll(f.few)
	b.addAll(f.once)
	b.addAll(f.more)
}

// sparse is the number of words of a set per token of a list.
const sparse = 4

func (m *Masks) add(f *found, ended int, ids []int32) {
	switch {
	case ended == 1:
		f.once = append(f.once, ids...)
	case ended > 1:
		f.more = append(f.more, ids...)
	case f.many != nil:
		f.many.addAll(ids)
	default:
		f.few = append(f.few, ids...)
		if sparse*len(f.few) > len(m.vocab.texts) {
			f.many = newBitset(m.vocab.size)
			f.many.addAll(f.few)
			f.few = nil
		}
	}
}

// walkTokens walks over tokens of some sorts.
func (m *Masks) walkTokens(from *automaton.State, sorts []trie) *found {
	if f, ok := from.Cache[slotWalk].(*found); ok {
		return f
	}
	f := &found{}
	near := m.machine.Near(from)
	for i := range sorts {
		t := &sorts[i]
		for w, word := range near {
			for ; word != 0; word &= word - 1 {
				if at := t.root[w<<6+bits.TrailingZeros64(word)]; at >= 0 {
					m.below(from, t, at, f)
				}
			}
		}
	}
	m.store(from, slotWalk, f, f.bytes())
	return f
}

// below walks over a node of a trie and its subtree.
func (m *Masks) below(from *automaton.State, t *trie, i int32, f *found) {
	end := t.skip[i]
	m.stack = append(m.stack[:0], from)
	for i < end {
		depth := t.depth[i]
		next := m.machine.Step(m.stack[depth-1], t.bytes[i])
		if next == nil {
			i = t.skip[i]
			continue
		}
		ended := next.Left()
		if t.skip[i]-i > worthwhile && ended == 0 {
			if r := m.run(next); t.kinds[i]&^r.kinds == 0 && t.height[i] <= r.length {
				m.add(f, 0, t.ids[t.first[i]:t.first[t.skip[i]]])
				i = t.skip[i]
				continue
			}
		}
		if t.first[i] != t.first[i+1] {
			m.add(f, ended, t.ids[t.first[i]:t.first[i+1]])
		}
		m.stack = append(m.stack[:depth], next)
		i++
	}
}

// worthwhile is the number of nodes from which a test for the whole subtree
// pays.
const worthwhile = 12

// run means that any bytes of some kinds may follow a state, up to a length.
type run struct {
	kinds  kinds
	length int32
}

const endless = 1 << 30

// run finds the longest run of a state: that of a free state, or the one in
// which the bytes of most kinds lead to the same state.
func (m *Masks) run(s *automaton.State) run {
	if r, ok := s.Cache[slotRun].(run); ok {
		return r
	}
	var r run
	if n, free := m.machine.Free(s); free {
		r = run{plainKinds | whole8, int32(n)}
		if n == int(automaton.Unbounded) {
			r.length = endless
		}
	} else {
		r = m.chain(s, 0)
	}
	s.Cache[slotRun] = r
	return r
}

// maxChain limits the length of a run.
const maxChain = 64

// chain returns the run of a state that is not free.
func (m *Masks) chain(s *automaton.State, depth int) (r run) {
	if r, ok := s.Cache[slotRun].(run); ok {
		return r
	}
	var to *automaton.State
	var tos [64]*automaton.State
	near := m.machine.Near(s)
	best := 0
	for i := range 64 {
		k := kinds(1) << i
		list := membersOf[k]
		if len(list) == 0 {
			continue
		}
		tos[i] = m.together(s, list, near)
		n := 0
		for j := range i + 1 {
			if tos[i] != nil && tos[j] == tos[i] {
				n += len(membersOf[kinds(1)<<j])
			}
		}
		if n > best {
			best, to = n, tos[i]
		}
	}
	if to == nil {
		return run{}
	}
	for i, t := range tos {
		if t == to {
			r.kinds |= kinds(1) << i
		}
	}
	r.length = 1
	switch {
	case to == s:
		r.length = endless
	case depth < maxChain:
		if next := m.chain(to, depth+1); next.kinds&r.kinds == r.kinds {
			r.length = min(endless, next.length+1)
		}
	}
	s.Cache[slotRun] = r
	return r
}

// together returns the state after each byte of a list, or nil if they differ,
// end a key, or may not follow.
func (m *Masks) together(s *automaton.State, list []byte, near [4]uint64) *automaton.State {
	var to *automaton.State
	for _, b := range list {
		if near[b>>6]>>(b&63)&1 == 0 {
			return nil
		}
	}
	for i, b := range list {
		next := m.machine.Step(s, b)
		if next == nil || i > 0 && next != to || next.Left() > 0 {
			return nil
		}
		to = next
	}
	return to
}
