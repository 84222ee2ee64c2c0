package grammar

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"mm-abi.org/mm/core/grammar/automaton"
)

// Masks computes which tokens of a vocabulary may follow a text of a grammar.
// It is safe for concurrent use.
type Masks struct {
	vocab *Vocabulary
	sorts []trie // of tokens in some text of the grammar
	ends  []int32
	// The length of the longest of them, and of those with characters that
	// strings must escape.
	tall, tallOdd int

	mu      sync.Mutex
	machine *automaton.Machine
	cached  int                // bytes of masks
	stack   []*automaton.State // of a walk, by depth
}

// State is the position in a text; after the end nothing follows. The zero
// value is invalid.
type State struct {
	at   *automaton.State
	over bool
}

// maxCached limits the bytes of cached masks.
const maxCached = 64 << 20

// Over combines a grammar with a vocabulary. ends are the tokens that end a
// text, by default those of the vocabulary. Texts with bytes that no token
// writes are left out; a vocabulary that cannot spell any text is an error.
func (g *Grammar) Over(v *Vocabulary, ends ...int32) (*Masks, error) {
	if len(ends) == 0 {
		ends = v.ends
	}
	if len(ends) == 0 {
		return nil, errors.New("vocabulary has no token that ends a text")
	}
	for _, id := range ends {
		if id < 0 || int(id) >= v.size {
			return nil, fmt.Errorf("end token %d out of range of %d tokens", id, v.size)
		}
	}
	program, err := v.spells(g.program)
	if err != nil {
		return nil, err
	}
	var lacking []string
	spelt := v.bytes
	for _, id := range ends {
		if piece := v.tok.Piece(id); len(piece) == 1 && v.texts.Has(id) {
			spelt[piece[0]]-- // not text here
		}
	}
	sorts := v.sorts[:control]
	for b, needed := range program.Bytes() {
		if needed && b < ' ' {
			sorts = v.sorts[:]
		}
		if needed && spelt[b] == 0 {
			lacking = append(lacking, fmt.Sprintf("0x%02x", b))
		}
	}
	if len(lacking) > 0 {
		return nil, lacks(lacking)
	}
	m := &Masks{vocab: v, sorts: sorts, ends: ends, machine: program.Run()}
	for i := range sorts {
		m.tall = max(m.tall, sorts[i].tall)
		if i >= odd {
			m.tallOdd = max(m.tallOdd, sorts[i].tall)
		}
	}
	return m, nil
}

func lacks(bytes []string) error {
	return fmt.Errorf("vocabulary lacks tokens for %d bytes of the grammar: %s", len(bytes), strings.Join(bytes[:min(len(bytes), 8)], ", "))
}

// spells returns the part of a grammar that the tokens of one byte can spell, so that no
// state is a dead end.
func (v *Vocabulary) spells(p *automaton.Program) (*automaton.Program, error) {
	var lacking []string
	for b, needed := range p.Bytes() {
		if needed && v.lacking[b] {
			lacking = append(lacking, fmt.Sprintf("0x%02x", b))
		}
	}
	if lacking == nil {
		return p, nil
	}
	part, err := p.Without(v.lacking)
	if errors.Is(err, automaton.ErrEmpty) {
		return nil, lacks(lacking)
	}
	return part, err
}

// Size returns the number of tokens, V.
func (m *Masks) Size() int { return m.vocab.size }

// Start returns the state of the empty text.
func (m *Masks) Start() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return State{at: m.machine.Start()}
}

// Done reports whether only the end may follow.
func (m *Masks) Done(s State) bool { return s.over || s.at.Done() }

// Accepts reports whether the text may end.
func (m *Masks) Accepts(s State) bool { return s.over || s.at.Accepts() }

// Next returns the state after a token, or false if the token is not allowed.
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

// spell steps through the bytes of a text; it returns nil if they are not
// allowed.
func (m *Masks) spell(at *automaton.State, text string) *automaton.State {
	for i := 0; i < len(text) && at != nil; i++ {
		at = m.machine.Step(at, text[i])
	}
	return at
}

// Spell returns the state after a text, however its tokens divide it, or false if it
// is not allowed.
func (m *Masks) Spell(s State, text string) (State, bool) {
	if s.over || s.at == nil {
		return State{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.spell(s.at, text)
	return State{at: at}, at != nil
}

// Mask returns a set with a bit for each token that may follow: at least one,
// unless the text is over. It is shared and must not be modified.
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
		for _, id := range m.keyEnds(p) {
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

// blurred returns the tokens that may follow a blurred state.
func (m *Masks) blurred(at *automaton.State) Bitset {
	if b, ok := at.Cache[slotMask].(Bitset); ok {
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
	m.store(at, slotMask, out, 8*len(out))
	return out
}

// part walks from a state of one position. From a free one it covers only the
// tokens with characters that strings must escape.
func (m *Masks) part(p *automaton.State) *found {
	if _, free := m.machine.Free(p); free {
		return m.walkTokens(m.machine.Blur(p, m.tallOdd), m.sorts[odd:])
	}
	return m.walkTokens(m.machine.Blur(p, m.tall), m.sorts)
}

// keyEnds returns the tokens in the mask of a blurred state of one position
// that may end a used key.
func (m *Masks) keyEnds(p *automaton.State) (out []int32) {
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
		// The key that ends is the one that p is in.
		piece := m.vocab.tok.Piece(id)
		if slices.ContainsFunc(rests, func(rest string) bool { return strings.HasPrefix(piece, rest) }) {
			out = append(out[:len(out):len(out)], id)
		}
	}
	return out
}

// Cache slots of a state: its mask; the result of a walk from a state of one
// position, which is not its complete mask; and its run.
const slotMask, slotWalk, slotRun = 0, 1, 2

// store caches a result of some bytes, and drops everything if the cache is too
// large.
func (m *Masks) store(at *automaton.State, what int, of any, bytes int) {
	at.Cache[what] = of
	if m.cached += bytes; m.cached > maxCached {
		m.machine.Forget()
		m.cached = 0
	}
}
