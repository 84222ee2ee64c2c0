package automaton

import (
	"slices"
	"strings"
)

// frame is a call that is open. Equal ones are the same.
type frame struct {
	frameKey
	id      uint64
	height  int32
	further *frame // the same with one more key left
}

type frameKey struct {
	parent     *frame
	rule, back int32
	min, max   int32 // what is left of the counter
	key        bool
	left       uint8 // 0: keys are told apart; or one more than keys were left since Blur, up to maxLeft
	text       *word // of a key, so far: its bytes
	used       *word // keys that were taken
}

// maxLeft is where keys that are left are no longer counted.
const maxLeft = 3

// records reports whether a call remembers the bytes of its text.
func (f *frame) records() bool { return f.key && f.left == 0 }

// word is a list of texts, the last first. Equal ones are the same.
type word struct {
	before *word
	text   string
}

// word gives the only list of a text behind others.
func (m *Machine) word(before *word, text string) *word {
	k := word{before, text}
	if w, ok := m.words[k]; ok {
		return w
	}
	w := &k
	m.words[k] = w
	return w
}

// spelt is a list of bytes as a text.
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

// frame gives the only frame of a key.
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

// leave ends a key that was not taken before.
func (m *Machine) leave(to int32, f *frame) {
	if f.left > 0 {
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

// further is a blurred frame with one more key left.
func (m *Machine) further(f *frame) *frame {
	if f == nil || f.left == maxLeft {
		return f
	}
	if f.further == nil {
		k := f.frameKey
		k.parent = m.further(k.parent)
		k.left++
		f.further = m.frame(k)
	}
	return f.further
}

// Blur is a state which no text of n bytes can tell from a state, but for keys:
// of counters only as much is left as such a text may count, and which keys were
// taken is forgotten, so that any may follow. What may follow the state may
// follow its blurred one as well; what may follow that, and leaves no key on its
// way ([State.Left]), may follow the state.
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
			m.left = 1
		} else if s.accept {
			m.left = 0
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
		k.max = min(k.max, most)
	}
	if m.p.keys {
		k.text, k.used, k.left = nil, nil, 1
	}
	if k == f.frameKey {
		return f
	}
	return m.frame(k)
}

// Left says how many keys were left since [Machine.Blur], two at most, on the
// way of which there are fewest.
func (s *State) Left() int { return int(max(s.left, 1)) - 1 }

// Keyed reports whether the state, of one place, is in a key that is to be told
// from others.
func (s *State) Keyed() bool { return s.keyed }

// Taken are what is missing of the keys that were taken, of those that begin
// like the one in which the state, of one place, is.
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
