package tokenizer

import (
	"math"
	"unicode/utf8"
)

// spm merges the two neighbors whose union is the token with the best score,
// leftmost first among equals, until no union is a token.
type spm struct {
	words *lexicon
	bytes [256]int32 // byte tokens, or None
	joins byteJoins  // two adjacent bytes within tokens
	// unknown is the token for text without a token or byte tokens.
	unknown int32
}

func newSPM(words *lexicon, unknown int32) *spm {
	s := &spm{words: words, unknown: unknown}
	for i := range s.bytes {
		s.bytes[i], _ = words.find(ByteToken(byte(i)))
	}
	var piece []byte
	for id := range int32(words.size()) {
		if !words.isInText(id) {
			continue
		}
		piece = words.appendForm(piece[:0], words.text(id))
		for i := 1; i < len(piece); i++ {
			s.joins.add(piece[i-1], piece[i])
		}
	}
	return s
}

// order returns the precedence of a token: smaller is better.
func (m *spm) order(id int32) uint32 { return descending(m.words.score(id)) }

// descending maps a float to an integer that decreases with it.
func descending(f float32) uint32 {
	bits := math.Float32bits(f)
	if f < 0 {
		return bits
	}
	return ^bits &^ (1 << 31) // -0 is 0
}

// encode appends the tokens of a text with literal spaces.
func (m *spm) encode(dst []int32, text string, s *scratch) []int32 {
	from := 0
	for i := 1; i < len(text); i++ {
		if (!m.joins.has(text[i-1], text[i]) || tooLong(from, i)) && utf8.RuneStart(text[i]) {
			dst = s.cached(dst, text[from:i], m.part)
			from = i
		}
	}
	return s.cached(dst, text[from:], m.part)
}

// part appends the tokens of a part that is merged separately.
func (m *spm) part(dst []int32, text string, s *scratch) []int32 {
	starts := s.starts[:0] // start of each character, and the end
	for i := 0; i < len(text); {
		starts = append(starts, int32(i))
		_, n := utf8.DecodeRuneInString(text[i:])
		i += n
	}
	starts = append(starts, int32(len(text)))
	s.starts = starts
	n := int32(len(starts) - 1)
	links := s.chain(int(n))
	end := func(i int32) int32 { return starts[i+links[i].size] }
	q := s.queue[:0]
	push := func(left, right int32) {
		if id, ok := m.words.findPiece(text[starts[left]:end(right)]); ok {
			q.push(candidate{uint64(m.order(id))<<32 | uint64(left), right, links[left].size + links[right].size})
		}
	}
	for i := int32(0); i+1 < n; i++ {
		push(i, i+1)
	}
	for len(q) > 0 {
		c := q.pop()
		left, right := int32(uint32(c.key)), c.right
		l, r := &links[left], &links[right]
		if l.size == 0 || r.size == 0 || l.size+r.size != c.size {
			continue
		}
		l.size, r.size, l.next = c.size, 0, r.next
		if r.next < n {
			links[r.next].prev = left
			push(left, r.next)
		}
		if l.prev >= 0 {
			push(l.prev, left)
		}
	}
	s.queue = q
	for i := int32(0); i < n; i = links[i].next {
		dst = m.append(dst, text[starts[i]:end(i)])
	}
	return dst
}

// append appends the token of a merged text, or its byte tokens.
func (m *spm) append(dst []int32, text string) []int32 {
	if id, ok := m.words.findPiece(text); ok {
		return append(dst, id)
	}
	return appendBytes(dst, text, &m.bytes, m.words.size(), m.unknown)
}
