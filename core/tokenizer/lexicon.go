package tokenizer

import (
	"fmt"
	"hash/maphash"
	"iter"
	"math/bits"
	"strings"
)

// lexicon holds the tokens of a vocabulary compactly: their texts back to back, and
// one hash table of ids. A Go map of 262k strings, a slice of them and a slice of
// tokens cost 50 MiB and 200 ms at each start; a lexicon costs 8 MiB and 20 ms.
//
// The table is keyed by the bytes that a text decodes to, its form: " a" for "▁a"
// or "Ġa". One table thus answers for texts ([lexicon.find]) and for pieces of text
// ([lexicon.findPiece]).
type lexicon struct {
	data   string // all texts
	ends   []uint32
	scores []float32 // nil: all are 0
	types  []uint8
	flags  map[int32]Flags // nearly always empty
	// marked marks texts with ▁ for a space; otherwise they are in GPT-2's alphabet.
	marked bool
	plain  bool // texts are literal

	inText []uint64 // bit set by id: whether merging text may produce the token
	slots  []uint32 // a power of two: tag<<idBits | id, 0 is empty
	seed   maphash.Seed
}

// idBits is the number of bits of an id in a slot; maxTokens fits into them. The
// bits above hold a tag of the hash, never 0, that avoids most comparisons.
const idBits = 22

// maxTextBytes is the total length of the texts of a vocabulary.
const maxTextBytes = 1<<31 - 1 - 64*maxTokens // less the texts of empty tokens

// newLexicon returns a lexicon of n tokens, to be filled.
func newLexicon(n int) *lexicon {
	return &lexicon{ends: make([]uint32, n), types: make([]uint8, n), seed: maphash.MakeSeed()}
}

// fill copies the texts. An empty one is replaced, and its token unused.
func (l *lexicon) fill(texts iter.Seq2[int, string]) error {
	total := 0
	for _, text := range texts {
		total += len(text)
	}
	var b strings.Builder
	if err := fitsText(total); err != nil {
		return err
	}
	b.Grow(total)
	for id, text := range texts {
		l.types[id] = uint8(Normal)
		if text == "" {
			text = fmt.Sprintf("[EMPTY_%d]", id)
			l.types[id] = uint8(Unused)
		}
		b.WriteString(text)
		l.ends[id] = uint32(b.Len())
	}
	l.data = b.String()
	return nil
}

// set stores the properties of a token other than its text. Type 0 is Normal; a
// token without text remains unused.
func (l *lexicon) set(id int32, tok Token) {
	if tok.Type != 0 && l.types[id] != uint8(Unused) {
		l.types[id] = uint8(tok.Type)
	}
	if tok.Score != 0 && l.scores == nil {
		l.scores = make([]float32, len(l.ends))
	}
	if l.scores != nil {
		l.scores[id] = tok.Score
	}
	if tok.Flags != (Flags{}) {
		if l.flags == nil {
			l.flags = make(map[int32]Flags)
		}
		l.flags[id] = tok.Flags
	}
}

// fitsText reports whether total bytes of text can be indexed.
func fitsText(total int) error {
	if total > maxTextBytes {
		return fmt.Errorf("texts of tokens too long: got %d bytes, limit %d", total, maxTextBytes)
	}
	return nil
}

// size returns the number of tokens.
func (l *lexicon) size() int { return len(l.ends) }

// text returns a token's text.
func (l *lexicon) text(id int32) string {
	from := uint32(0)
	if id > 0 {
		from = l.ends[id-1]
	}
	return l.data[from:l.ends[id]]
}

// token returns a token.
func (l *lexicon) token(id int32) Token {
	return Token{Text: l.text(id), Score: l.score(id), Type: Type(l.types[id]), Flags: l.flags[id]}
}

// tokens returns all tokens.
func (l *lexicon) tokens() []Token {
	out := make([]Token, l.size())
	for id := range out {
		out[id] = l.token(int32(id))
	}
	return out
}

func (l *lexicon) score(id int32) float32 {
	if l.scores == nil {
		return 0
	}
	return l.scores[id]
}

// appendForm appends the bytes that a text decodes to.
func (l *lexicon) appendForm(dst []byte, text string) []byte {
	switch {
	case l.plain:
		return append(dst, text...)
	case l.marked:
		return appendUnmarked(dst, text)
	}
	if out, ok := appendFromAlphabet(dst, text); ok {
		return out
	}
	return append(dst, text...)
}

// index fills the table; texts must be unique. It is called before find.
func (l *lexicon) index(marked bool) error {
	l.marked = marked
	l.slots = make([]uint32, 1<<bits.Len(uint(max(l.size(), 8))*3/2))
	var form []byte
	for id := range int32(l.size()) {
		text := l.text(id)
		form = l.appendForm(form[:0], text)
		at, tag := l.hash(maphash.Bytes(l.seed, form))
		for ; l.slots[at] != 0; at = (at + 1) & (len(l.slots) - 1) {
			if s := l.slots[at]; s>>idBits == tag && l.text(slotID(s)) == text {
				return fmt.Errorf("duplicate text of tokens %d and %d: %q", slotID(s), id, text)
			}
		}
		l.slots[at] = tag<<idBits | uint32(id)
	}
	return nil
}

func slotID(slot uint32) int32 { return int32(slot & (1<<idBits - 1)) }

// hash returns the first slot of a hash, and its tag.
func (l *lexicon) hash(h uint64) (at int, tag uint32) {
	return int(h) & (len(l.slots) - 1), uint32(h>>(64-32+idBits)) | 1
}

// find returns the token with a text.
func (l *lexicon) find(text string) (int32, bool) {
	var buf [64]byte
	at, tag := l.hash(maphash.Bytes(l.seed, l.appendForm(buf[:0], text)))
	for ; l.slots[at] != 0; at = (at + 1) & (len(l.slots) - 1) {
		if s := l.slots[at]; s>>idBits == tag && l.text(slotID(s)) == text {
			return slotID(s), true
		}
	}
	return None, false
}

// findPiece returns the token that a piece of text may become. "▁a" and " a" both
// mean " a"; files intend the first.
func (l *lexicon) findPiece(piece string) (int32, bool) {
	found := None
	at, tag := l.hash(maphash.String(l.seed, piece))
	for ; l.slots[at] != 0; at = (at + 1) & (len(l.slots) - 1) {
		id := slotID(l.slots[at])
		if l.slots[at]>>idBits != tag || !l.isInText(id) || !l.means(id, piece) {
			continue
		}
		switch {
		case found == None:
			found = id
		case strings.Contains(l.text(id), spaceMark):
			found = id
		}
		if !l.marked || strings.IndexByte(piece, ' ') < 0 {
			break // no other text means this piece
		}
	}
	return found, found != None
}

// means reports whether a token decodes to a piece.
func (l *lexicon) means(id int32, piece string) bool {
	text := l.text(id)
	if len(text) == len(piece) {
		return text == piece
	}
	var buf [64]byte
	return len(text) > len(piece) && string(l.appendForm(buf[:0], text)) == piece
}

// isInText reports whether merging text may produce a token.
func (l *lexicon) isInText(id int32) bool { return l.inText[id>>6]>>(id&63)&1 != 0 }

// classify computes inText, after the types are final.
func (l *lexicon) classify() {
	l.inText = make([]uint64, (l.size()+63)/64)
	var form []byte
	for id := range int32(l.size()) {
		ok := true
		switch typ, text := Type(l.types[id]), l.text(id); {
		case typ == Control || typ == Unknown || typ == Byte:
			ok = false
		case l.marked || l.plain:
		default:
			form, ok = appendFromAlphabet(form[:0], text)
			ok = ok && (typ != UserDefined || string(form) == text) // user-defined ones are literal
		}
		if ok {
			l.inText[id>>6] |= 1 << (id & 63)
		}
	}
}

// piece returns the bytes of a token, or the text of a control token.
func (l *lexicon) piece(id int32) string {
	text := l.text(id)
	switch typ := Type(l.types[id]); {
	case typ == Control || typ == Unknown:
		return text
	case typ == Byte:
		b, _ := byteOf(text)
		return string([]byte{b})
	case l.plain:
		if rest, ok := strings.CutPrefix(text, pieceMark); ok {
			return rest
		}
		return " " + text
	case l.marked:
		return unmark(text)
	case typ == UserDefined:
		return text
	}
	if piece, ok := FromAlphabet(text); ok {
		return piece
	}
	return text
}
