package grammar

import (
	"math/bits"
	"slices"
	"unicode/utf8"

	"mm-abi.org/mm/core/tokenizer"
)

// Bitset is a set of tokens, a bit each.
type Bitset []uint64

func newBitset(n int) Bitset { return make(Bitset, (n+63)/64) }

// Has reports whether a token is in the set.
func (b Bitset) Has(id int32) bool {
	return id >= 0 && int(id)>>6 < len(b) && b[id>>6]>>(uint(id)&63)&1 != 0
}

// Count returns the number of tokens in the set.
func (b Bitset) Count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

func (b Bitset) add(id int32) { b[id>>6] |= 1 << (uint(id) & 63) }

// set adds a token to the set or removes it.
func (b Bitset) set(id int32, in bool) {
	b.add(id)
	if !in {
		b[id>>6] &^= 1 << (uint(id) & 63)
	}
}

func (b Bitset) addAll(ids []int32) {
	for _, id := range ids {
		b[id>>6] |= 1 << (uint(id) & 63)
	}
}

func (b Bitset) union(o Bitset) {
	for i, w := range o {
		b[i] |= w
	}
}

// Vocabulary is a tokenizer prepared for grammars. It is immutable and shared
// by any number of grammars.
type Vocabulary struct {
	tok   *tokenizer.Tokenizer
	size  int
	sorts [sorts]trie // of text tokens
	plain []Bitset    // of those that a JSON string contains unescaped, by the number of characters: 0, at most 1, …
	bytes [256]int    // tokens of one byte
	// lacking are the bytes without a token. Other tokens with such a byte are
	// excluded: a text that needs one after another could not be completed.
	lacking [256]bool
	texts   Bitset // tokens that a mask may contain
	ends    []int32
}

// The sorts of tokens. Those that a JSON string contains unescaped come first;
// tokens of one sort are likely to be allowed together.
const (
	wordy   = iota // ASCII letters and digits
	ascii          // other ASCII
	foreign        // non-ASCII characters
	odd            // with quotes, backslashes or parts of characters
	control        // with control characters, which most grammars exclude
	sorts
)

// sortOf returns the sort of a text.
func sortOf(text string) int {
	sort := wordy
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ':
			return control
		case c == '"', c == '\\':
			sort = odd
		case c >= utf8.RuneSelf:
			sort = max(sort, foreign)
		case kindOf[c]&wordyKinds == 0:
			sort = max(sort, ascii)
		}
	}
	if !utf8.ValidString(text) {
		return odd
	}
	return sort
}

// Read prepares a tokenizer. Tokens that are not text by their type, or that
// are matched verbatim, are excluded: other tokens can spell them.
func Read(tok *tokenizer.Tokenizer) *Vocabulary {
	v := &Vocabulary{tok: tok, size: tok.Size(), texts: newBitset(tok.Size())}
	var of [sorts][]entry
	var plain [][]int32
	for id := range int32(v.size) {
		if tok.Ends(id) {
			v.ends = append(v.ends, id)
		} else if piece := tok.Piece(id); isText(tok, id) && len(piece) == 1 {
			v.bytes[piece[0]]++
		}
	}
	for b, n := range v.bytes {
		v.lacking[b] = n == 0
	}
	for id := range int32(v.size) {
		piece := tok.Piece(id)
		if !isText(tok, id) || v.lacks(piece) {
			continue
		}
		v.texts.add(id)
		sort := sortOf(piece)
		of[sort] = append(of[sort], entry{piece, id})
		if sort >= odd {
			continue
		}
		n := utf8.RuneCountInString(piece)
		for len(plain) <= n {
			plain = append(plain, nil)
		}
		plain[n] = append(plain[n], id)
	}
	for sort, list := range of {
		v.sorts[sort] = newTrie(list, sort < odd)
	}
	for _, of := range wordKinds {
		v.sorts[wordy].words = append(v.sorts[wordy].words, newWords(&v.sorts[wordy], of, v.size))
	}
	sum := newBitset(v.size)
	for _, ids := range plain {
		sum.addAll(ids)
		v.plain = append(v.plain, slices.Clone(sum))
	}
	if v.plain == nil {
		v.plain = []Bitset{sum}
	}
	return v
}

// isText reports whether a token is text by its type and not the end of a text.
func isText(tok *tokenizer.Tokenizer, id int32) bool {
	t := tok.Type(id)
	return !tok.Ends(id) && (t == tokenizer.Normal || t == tokenizer.Byte) && tok.Piece(id) != ""
}

func (v *Vocabulary) lacks(piece string) bool {
	for i := range len(piece) {
		if v.lacking[piece[i]] {
			return true
		}
	}
	return false
}

// upTo returns the plain tokens of at most n characters.
func (v *Vocabulary) upTo(n int) Bitset { return v.plain[min(max(n, 0), len(v.plain)-1)] }
