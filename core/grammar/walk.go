package grammar

import (
	"math/bits"
	"slices"

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
		if t.words != nil && m.along(from, t, f) {
			continue
		}
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

// worthLength is the length of a run from which [Masks.along] pays.
const worthLength = 2

// along adds the tokens of letters and digits that fit into a run, and walks over the
// rest of the longer ones. It reports whether there is such a run.
func (m *Masks) along(from *automaton.State, t *trie, f *found) bool {
	r := m.run(from, int32(t.tall))
	i := slices.IndexFunc(t.words, func(w words) bool { return w.kinds&^r.kinds == 0 && !meet(w.others, r.near) })
	if i < 0 || r.length < worthLength || r.end == nil && int(r.length) < t.tall {
		return false
	}
	w := &t.words[i]
	if f.many == nil {
		f.many = newBitset(m.vocab.size)
		f.many.addAll(f.few)
		f.few = nil
	}
	f.many.union(w.upTo[min(int(r.length), t.tall)])
	if int(r.length) >= t.tall {
		return true
	}
	near := m.machine.Near(r.end)
	if !meet(near, w.all) {
		return true
	}
	for _, i := range w.levels[r.length] {
		if b := t.bytes[i]; near[b>>6]>>(b&63)&1 != 0 {
			m.below(r.end, t, i, f)
		}
	}
	return true
}

// meet reports whether two sets of bytes have a common one.
func meet(a, b [4]uint64) bool {
	return a[0]&b[0]|a[1]&b[1]|a[2]&b[2]|a[3]&b[3] != 0
}

// below walks over a node of a trie and its subtree, from the state before it.
func (m *Masks) below(from *automaton.State, t *trie, i int32, f *found) {
	end, above := t.skip[i], t.depth[i]-1
	m.stack = append(m.stack[:0], from)
	for i < end {
		depth := t.depth[i] - above
		next := m.machine.Step(m.stack[depth-1], t.bytes[i])
		if next == nil {
			i = t.skip[i]
			continue
		}
		ended := next.Left()
		if t.skip[i]-i > worthwhile && ended == 0 {
			if r := m.run(next, t.height[i]); t.kinds[i]&^r.kinds == 0 && t.height[i] <= r.length {
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
	end    *automaton.State // after such bytes of the length; nil if it is free or endless
	next   *automaton.State // after one
	near   [4]uint64        // the bytes that may follow a state before the end
	longer bool             // the length may be longer
}

const endless = 1 << 30

// run finds the longest run of a state: that of a free state, or the one in
// which the bytes of most kinds lead to the same state. It looks no further than a
// length.
func (m *Masks) run(s *automaton.State, most int32) run {
	r, ok := s.Cache[slotRun].(run)
	if !ok {
		r = m.first(s)
		s.Cache[slotRun] = r
	}
	if !r.longer || r.length >= most {
		return r
	}
	for r.length < most {
		next, ok := r.end.Cache[slotRun].(run)
		if !ok {
			next = m.first(r.end)
			r.end.Cache[slotRun] = next
		}
		if r.longer = next.kinds&r.kinds == r.kinds && next.length > 0; !r.longer {
			break
		}
		if next.next == nil || next.next == r.end { // free, or a loop
			r.length, r.longer, r.end = min(endless, r.length+next.length), false, nil
			for i := range r.near {
				r.near[i] |= next.near[i]
			}
			break
		}
		r.length, r.end = r.length+1, next.next
		for i := range r.near {
			r.near[i] |= next.near[i]
		}
	}
	s.Cache[slotRun] = r
	return r
}

// first returns the run of a state for one byte, or that of a free state.
func (m *Masks) first(s *automaton.State) run {
	if n, free := m.machine.Free(s); free {
		r := run{kinds: plainKinds | whole8, length: int32(n)}
		if n == int(automaton.Unbounded) {
			r.length = endless
		}
		return r
	}
	var to *automaton.State
	var tos [64]*automaton.State
	near := m.machine.Near(s)
	best := 0
	for i := range 64 {
		list := membersOf[kinds(1)<<i]
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
	r := run{length: 1, end: to, next: to, near: near, longer: true}
	for i, t := range tos {
		if t == to {
			r.kinds |= kinds(1) << i
		}
	}
	if to == s {
		r.length, r.longer, r.end = endless, false, nil
	}
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
