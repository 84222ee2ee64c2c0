package grammar

import (
	"strings"

	"mm-abi.org/mm/core/grammar/automaton"
	"mm-abi.org/mm/core/tokenizer"
)

// maxForced limits the forced lookahead, in bytes.
const maxForced = 1024

// Forced returns the tokens that must follow, whatever the model: the text up
// to the first choice of the grammar, as the tokenizer encodes it. Trailing
// tokens are omitted if a longer token, extending beyond the forced text, could
// replace them: that choice is the model's. If only the end may follow and it
// has a single token, that token is forced as well.
func (m *Masks) Forced(s State) []int32 {
	if s.over || s.at == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var text strings.Builder
	at := s.at
	for text.Len() < maxForced {
		b, ok := m.machine.Only(at)
		if !ok {
			break
		}
		text.WriteByte(b)
		at = m.machine.Step(at, b)
	}
	forced := text.String()
	ids := m.tokens(forced)
	from := 0
	for i, id := range ids {
		if m.longer(forced[from:], at) {
			return ids[:i]
		}
		from += len(m.vocab.tok.Piece(id))
	}
	if from == len(forced) && at.Done() && len(m.ends) == 1 {
		ids = append(ids, m.ends[0])
	}
	return ids
}

// tokens encodes a text: as the tokenizer does or, if that adds a space or
// needs a token outside the masks, greedily by the longest token.
func (m *Masks) tokens(text string) []int32 {
	ids := m.vocab.tok.Encode(text, tokenizer.Options{})
	rest, good := text, true
	for _, id := range ids {
		var same bool
		rest, same = strings.CutPrefix(rest, m.vocab.tok.Piece(id))
		good = good && same && m.allowed(id)
	}
	if good && rest == "" {
		return ids
	}
	ids = ids[:0]
	for rest = text; rest != ""; {
		id, n := m.longest(rest)
		if n == 0 {
			break
		}
		ids, rest = append(ids, id), rest[n:]
	}
	return ids
}

// allowed reports whether a token may be in a mask as text.
func (m *Masks) allowed(id int32) bool {
	for _, end := range m.ends {
		if end == id {
			return false
		}
	}
	return m.vocab.texts.Has(id)
}

// longest returns the longest token that is a prefix of a text, and its length.
func (m *Masks) longest(text string) (id int32, n int) {
	for i := range m.sorts {
		t := &m.sorts[i]
		for d := n + 1; d <= len(text) && d <= t.tall; d++ {
			at := t.find(text[:d])
			if at < 0 {
				break
			}
			for _, of := range t.ids[t.first[at]:t.first[at+1]] {
				if m.allowed(of) {
					id, n = of, d
					break
				}
			}
		}
	}
	return id, n
}

// longer reports whether some token extends a nonempty text by bytes that the
// grammar allows.
func (m *Masks) longer(text string, at *automaton.State) bool {
	for i := range m.sorts {
		if m.reaches(&m.sorts[i], text, at) {
			return true
		}
	}
	return false
}

func (m *Masks) reaches(t *trie, text string, at *automaton.State) bool {
	i := t.find(text)
	if i < 0 {
		return false
	}
	states := []*automaton.State{at}
	for end, i := t.skip[i], i+1; i < end; {
		d := int(t.depth[i]) - len(text)
		next := m.machine.Step(states[d-1], t.bytes[i])
		if next == nil {
			i = t.skip[i]
			continue
		}
		for _, id := range t.ids[t.first[i]:t.first[i+1]] {
			if m.allowed(id) {
				return true
			}
		}
		states = append(states[:d], next)
		i++
	}
	return false
}
