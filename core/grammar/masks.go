package grammar

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/core/grammar/automaton"
)

// Masks say which tokens of a vocabulary may follow a text of a grammar. They
// are safe for concurrent use.
type Masks struct {
	vocab *Vocabulary
	sorts []trie // of tokens that some text of the grammar may hold
	ends  []int32
	// The length of the longest of them, and of those which strings do not hold
	// as they are.
	tall, tallOdd int

	mu      sync.Mutex
	machine *automaton.Machine
	kept    int                // bytes of masks
	stack   []*automaton.State // of a walk, by depth
}

// State is where a text stands; that of a text that is over has nothing after
// it. The zero value is no state.
type State struct {
	at   *automaton.State
	over bool
}

// maxKept bounds the bytes of the masks that are kept.
const maxKept = 64 << 20

// Over looks at a grammar through a vocabulary. The tokens that end a text are
// ends, or without any those that the vocabulary says end one. A vocabulary
// that cannot spell what the grammar needs is an error.
func (g *Grammar) Over(v *Vocabulary, ends ...int32) (*Masks, error) {
	if len(ends) == 0 {
		ends = v.ends
	}
	if len(ends) == 0 {
		return nil, errors.New("the vocabulary has no token that ends a text")
	}
	for _, id := range ends {
		if id < 0 || int(id) >= v.size {
			return nil, fmt.Errorf("token %d, which is to end a text, is not among %d", id, v.size)
		}
	}
	var lacking []string
	spelt := v.bytes
	for _, id := range ends {
		if piece := v.tok.Piece(id); len(piece) == 1 && v.texts.Has(id) {
			spelt[piece[0]]-- // it is no text here
		}
	}
	sorts := v.sorts[:control]
	for b, needed := range g.program.Bytes() {
		if needed && b < ' ' {
			sorts = v.sorts[:]
		}
		if needed && spelt[b] == 0 {
			lacking = append(lacking, fmt.Sprintf("0x%02x", b))
		}
	}
	if len(lacking) > 0 {
		return nil, fmt.Errorf("the vocabulary has no token of its own for %d bytes that the grammar needs: %s", len(lacking), strings.Join(lacking[:min(len(lacking), 8)], ", "))
	}
	m := &Masks{vocab: v, sorts: sorts, ends: ends, machine: g.program.Run()}
	for i := range sorts {
		m.tall = max(m.tall, sorts[i].tall)
		if i >= odd {
			m.tallOdd = max(m.tallOdd, sorts[i].tall)
		}
	}
	return m, nil
}

// Size is the number of tokens, V.
func (m *Masks) Size() int { return m.vocab.size }

// Start is the state of the empty text.
func (m *Masks) Start() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return State{at: m.machine.Start()}
}

// Done reports whether nothing but the end may follow.
func (m *Masks) Done(s State) bool { return s.over || s.at.Done() }

// Accepts reports whether the text may end.
func (m *Masks) Accepts(s State) bool { return s.over || s.at.Accepts() }

// Next is the state behind a token; false where the token is not allowed.
func (m *Masks) Next(s State, token int32) (State, bool) {
	if s.over || s.at == nil {
		return State{}, false
	}
	for _, id := range m.ends {
		if id == token {
			return State{over: true}, s.at.Accepts()
		}
	}
	if !m.vocab.texts.Has(token) {
		return State{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.spell(s.at, m.vocab.tok.Piece(token))
	return State{at: at}, at != nil
}

// spell goes by the bytes of a text; nil where that cannot be.
func (m *Masks) spell(at *automaton.State, text string) *automaton.State {
	for i := 0; i < len(text) && at != nil; i++ {
		at = m.machine.Step(at, text[i])
	}
	return at
}

// Mask has a bit for each token that may follow: one at least, unless the text
// is over. It is shared, and must not be changed.
func (m *Masks) Mask(s State) Bitset {
	if s.over || s.at == nil {
		return newBitset(m.vocab.size)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mask(s.at)
}

func (m *Masks) mask(at *automaton.State) Bitset {
	all := m.blurred(m.machine.Blur(at, m.tall))
	if !m.machine.Keys() {
		return all
	}
	out := all
	for _, p := range m.machine.Parts(at) {
		for _, id := range m.taken(p) {
			if m.spell(at, m.vocab.tok.Piece(id)) != nil {
				continue
			}
			if &out[0] == &all[0] {
				out = slices.Clone(all)
			}
			out.set(id, false)
		}
	}
	return out
}

// blurred has a bit for each token that may follow a blurred state.
func (m *Masks) blurred(at *automaton.State) Bitset {
	if b, ok := at.Kept[whole].(Bitset); ok {
		return b
	}
	out := newBitset(m.vocab.size)
	for _, p := range m.machine.Parts(at) {
		if n, free := m.machine.Free(p); free {
			if n == int(automaton.Unbounded) {
				n = len(m.vocab.plain)
			}
			out.union(m.vocab.upTo(n))
		}
		m.part(p).addTo(out)
	}
	for _, id := range m.ends {
		out.set(id, at.Accepts())
	}
	m.keep(at, whole, out, 8*len(out))
	return out
}

// part is what a walk from a state of one place comes to. From a free one it is
// over those tokens alone which strings do not hold as they are.
func (m *Masks) part(p *automaton.State) *found {
	if _, free := m.machine.Free(p); free {
		return m.walked(m.machine.Blur(p, m.tallOdd), m.sorts[odd:])
	}
	return m.walked(m.machine.Blur(p, m.tall), m.sorts)
}

// taken are tokens of the mask of a state of one place, blurred, that may leave
// a key which was taken.
func (m *Masks) taken(p *automaton.State) (out []int32) {
	f := m.part(p)
	out = f.more
	if !p.Keyed() {
		return append(out[:len(out):len(out)], f.once...)
	}
	rests := p.Taken()
	if len(rests) == 0 {
		return out
	}
	for _, id := range f.once {
		// The key that is left is that in which p is.
		piece := m.vocab.tok.Piece(id)
		if slices.ContainsFunc(rests, func(rest string) bool { return strings.HasPrefix(piece, rest) }) {
			out = append(out[:len(out):len(out)], id)
		}
	}
	return out
}

// What is kept at a state: its mask; at one of a single place what a walk from
// it found, which is not all of its mask; and its run.
const whole, walk, ahead = 0, 1, 2

// keep remembers something of some bytes, and lets go of everything when that
// is too much.
func (m *Masks) keep(at *automaton.State, what int, of any, bytes int) {
	at.Kept[what] = of
	if m.kept += bytes; m.kept > maxKept {
		m.machine.Forget()
		m.kept = 0
	}
}
