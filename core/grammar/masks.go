package grammar

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"mm-abi.org/mm/core/grammar/automaton"
)

// Masks say which tokens of a vocabulary may follow a text of a grammar. They
// are safe for concurrent use.
type Masks struct {
	vocab *Vocabulary
	ends  []int32

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
	for b, needed := range g.program.Bytes() {
		if needed && spelt[b] == 0 {
			lacking = append(lacking, fmt.Sprintf("0x%02x", b))
		}
	}
	if len(lacking) > 0 {
		return nil, fmt.Errorf("the vocabulary has no token of its own for %d bytes that the grammar needs: %s", len(lacking), strings.Join(lacking[:min(len(lacking), 8)], ", "))
	}
	return &Masks{vocab: v, ends: ends, machine: g.program.Run()}, nil
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
	if b, ok := at.Kept[whole].(Bitset); ok {
		return b
	}
	out := newBitset(m.vocab.size)
	for _, p := range m.machine.Parts(at) {
		m.part(p, out)
	}
	for _, id := range m.ends {
		out.set(id, at.Accepts())
	}
	m.keep(at, whole, out)
	return out
}

// part adds the tokens that may follow a state of one place.
func (m *Masks) part(p *automaton.State, to Bitset) {
	n, free := m.machine.Free(p)
	if !free {
		to.union(m.walked(p, &m.vocab.all))
		return
	}
	if n == int(automaton.Unbounded) {
		n = len(m.vocab.plain)
	}
	to.union(m.vocab.upTo(n))
	// What is left of a counter matters as far as a token reaches.
	to.union(m.walked(m.machine.Clip(p, m.vocab.longest), &m.vocab.odd))
}

// walked is the set of tokens of a trie that may follow a state of one place.
func (m *Masks) walked(from *automaton.State, t *trie) Bitset {
	if b, ok := from.Kept[walk].(Bitset); ok {
		return b
	}
	out := newBitset(m.vocab.size)
	m.stack = append(m.stack[:0], from)
	for i := int32(0); int(i) < len(t.bytes); {
		depth := t.depth[i]
		next := m.machine.Step(m.stack[depth-1], t.bytes[i])
		if next == nil {
			i = t.skip[i]
			continue
		}
		m.stack = append(m.stack[:depth], next)
		for _, id := range t.ids[t.first[i]:t.first[i+1]] {
			out.add(id)
		}
		i++
	}
	clear(m.stack)
	m.keep(from, walk, out)
	return out
}

// What is kept at a state: its mask, and, at one of a single place, what a walk
// from it found, which is not all of its mask.
const whole, walk = 0, 1

// keep remembers a set of tokens, and lets go of everything when that is too
// much.
func (m *Masks) keep(at *automaton.State, what int, b Bitset) {
	at.Kept[what] = b
	if m.kept += 8 * len(b); m.kept > maxKept {
		m.machine.Forget()
		m.kept = 0
	}
}
