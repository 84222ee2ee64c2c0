package automaton

import (
	"slices"
	"strings"
)

// frame is an open call. Equal frames are identical.
type frame struct {
	frameKey
	id      uint64
	height  int32
	further *frame // the same with one more key ended
}

type frameKey struct {
	parent     *frame
	rule, back int32
	min, max   int32 // remaining counts
	key        bool
	ended      uint8 // 0: keys are recorded; otherwise one more than the number of keys ended since Blur, up to maxEnded
	text       *word // bytes of the current key
	used       *word // used keys
}

// maxEnded is the limit of the counter of ended keys.
const maxEnded = 3

// records reports whether a call records the bytes of its key.
func (f *frame) records() bool { return f.key && f.ended == 0 }

// word is a list of texts in reverse order. Equal lists are identical.
type word struct {
	before *word
	text   string
}

// word returns the unique list of a text appended to another list.
func (m *Machine) word(before *word, text string) *word {
	k := word{before, text}
	if w, ok := m.words[k]; ok {
		return w
	}
	w := &k
	m.words[k] = w
	return w
}

// spelt returns a list of bytes as a string.
func (w *word) spelt() string {
	n := 0
	for at := w; at != nil; at = at.before {
		n++
	}
	out := make([]byte, n)
	for at := w; at != nil; at = at.before {
		n--
		out[n] = at.text[0]
	}
	return string(out)
}

// frame returns the unique frame of a key.
func (m *Machine) frame(k frameKey) *frame {
	if f, ok := m.frames[k]; ok {
		return f
	}
	m.last++
	f := &frame{frameKey: k, id: m.last}
	if k.parent != nil {
		f.height = k.parent.height
	}
	if m.p.rules[k.rule].deep {
		f.height++
	}
	m.frames[k] = f
	return f
}

// leave ends a key unless it was used before.
func (m *Machine) leave(to int32, f *frame) {
	if f.ended > 0 {
		m.enter(to, m.further(f.parent))
		return
	}
	text := f.text.spelt()
	for w := f.parent.used; w != nil; w = w.before {
		if w.text == text {
			return
		}
	}
	k := f.parent.frameKey
	k.used = m.word(k.used, text)
	m.enter(to, m.frame(k))
}

// further returns a blurred frame with one more key ended.
func (m *Machine) further(f *frame) *frame {
	if f == nil || f.ended == maxEnded {
		return f
	}
	if f.further == nil {
		k := f.frameKey
		k.parent = m.further(k.parent)
		k.ended++
		f.further = m.frame(k)
	}
	return f.further
}

// Blur returns a state that texts of n bytes cannot distinguish from s, except
// by keys: counters are kept only as far as such a text can count, and the used
// keys are dropped, so that any key may follow. A text that may follow s may
// follow its blurred state; a text that may follow the blurred state and ends
// no key ([State.Left]) may follow s.
func (m *Machine) Blur(s *State, n int) *State {
	for _, b := range s.blurred {
		if b.bytes == n {
			return b.to
		}
	}
	m.begin()
	same := true
	for _, t := range s.threads {
		f := m.blur(t.frame, int32(n+1))
		same = same && f == t.frame
		if to := (thread{t.node, f}); !slices.Contains(m.set, to) {
			m.set = append(m.set, to)
		}
	}
	out := s
	if !same {
		if m.accept = s.accept; s.accept && m.p.keys {
			m.ended = 1
		} else if s.accept {
			m.ended = 0
		}
		out = m.state()
	}
	s.blurred = append(s.blurred, blurred{n, out})
	return out
}

func (m *Machine) blur(f *frame, most int32) *frame {
	if f == nil {
		return nil
	}
	k := f.frameKey
	k.parent = m.blur(k.parent, most)
	k.min = min(k.min, most)
	if k.max != Unbounded {
		k.max = min(k.max, most+m.p.spare)
	}
	if m.p.keys {
		k.text, k.used, k.ended = nil, nil, 1
	}
	if k == f.frameKey {
		return f
	}
	return m.frame(k)
}

// Left returns how many keys were ended since [Machine.Blur], at most two, on
// the path with the fewest.
func (s *State) Left() int { return int(max(s.ended, 1)) - 1 }

// Keyed reports whether the state, of one position, is in a key whose text
// matters.
func (s *State) Keyed() bool { return s.keyed }

// Taken returns the missing rests of the used keys that begin like the key in
// which the state, of one position, is.
func (s *State) Taken() (out []string) {
	f := s.threads[0].frame
	if !f.records() || f.parent.used == nil {
		return nil
	}
	text := f.text.spelt()
	for w := f.parent.used; w != nil; w = w.before {
		if rest, ok := strings.CutPrefix(w.text, text); ok {
			out = append(out, rest)
		}
	}
	return out
}
