package grammar

import (
	"math/bits"

	"mm-abi.org/mm/core/grammar/automaton"
)

// found is what a walk from a blurred state comes to.
type found struct {
	few  []int32 // tokens that may follow, or
	many Bitset
	once []int32 // others, which leave a key on their way
	more []int32 // and those that leave several
}

// bytes is what it takes to keep it.
func (f *found) bytes() int { return 8*len(f.many) + 4*(len(f.few)+len(f.once)+len(f.more)) }

// addTo adds all of them.
func (f *found) addTo(b Bitset) {
	if f.many != nil {
		b.union(f.many)
	}
	b.addAll(f.few)
	b.addAll(f.once)
	b.addAll(f.more)
}

// sparse is how many words of a set there are to a token of a list.
const sparse = 4

func (m *Masks) add(f *found, left int, ids []int32) {
	switch {
	case left == 1:
		f.once = append(f.once, ids...)
	case left > 1:
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

// walked is what a walk over tokens of some sorts comes to.
func (m *Masks) walked(from *automaton.State, sorts []trie) *found {
	if f, ok := from.Kept[walk].(*found); ok {
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
	m.keep(from, walk, f, f.bytes())
	return f
}

// below walks over a node of a trie and those below it.
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
		left := next.Left()
		if t.skip[i]-i > worthwhile && left == 0 {
			if r := m.run(next); t.kinds[i]&^r.kinds == 0 && t.height[i] <= r.length {
				m.add(f, 0, t.ids[t.first[i]:t.first[t.skip[i]]])
				i = t.skip[i]
				continue
			}
		}
		if t.first[i] != t.first[i+1] {
			m.add(f, left, t.ids[t.first[i]:t.first[i+1]])
		}
		m.stack = append(m.stack[:depth], next)
		i++
	}
}

// worthwhile is the number of nodes for which one asks whether all of them are
// allowed.
const worthwhile = 12

// run says of a state that any bytes of some kinds may follow it, up to a
// length.
type run struct {
	kinds  kinds
	length int32
}

const endless = 1 << 30

// run finds the longest run of a state that this looks for: that of the free,
// or that in which the bytes of most kinds lead to the same state.
func (m *Masks) run(s *automaton.State) run {
	if r, ok := s.Kept[ahead].(run); ok {
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
	s.Kept[ahead] = r
	return r
}

// maxChain is how far a run is followed.
const maxChain = 64

// chain is the run of a state which is not free.
func (m *Masks) chain(s *automaton.State, depth int) (r run) {
	if r, ok := s.Kept[ahead].(run); ok {
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
	s.Kept[ahead] = r
	return r
}

// together is the state behind each byte of a list, nil where they differ, or
// leave a key, or one may not follow.
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
