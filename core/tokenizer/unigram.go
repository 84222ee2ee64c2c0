package tokenizer

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// unknownPenalty is how much worse than the worst token an unknown character is.
const unknownPenalty = 10

// unigram splits text into the tokens with the greatest sum of scores.
type unigram struct {
	words   *lexicon
	unknown int32
	bytes   [256]int32 // byte tokens, or None
	hasByte bool
	none    float64 // score of an unknown character
	trie    trie
}

func newUnigram(words *lexicon, unknown int32) *unigram {
	u := &unigram{words: words, unknown: unknown, none: math.Inf(1), hasByte: true, trie: newTrie()}
	for id := range int32(words.size()) {
		u.none = min(u.none, float64(words.score(id)))
		if words.isInText(id) {
			u.trie.add(words.piece(id), id)
		} else if Type(words.types[id]) == Byte { // text may spell it
			u.trie.add(words.text(id), id)
		}
	}
	u.none -= unknownPenalty
	for i := range u.bytes {
		id, ok := words.find(ByteToken(byte(i)))
		u.bytes[i] = id
		u.hasByte = u.hasByte && ok && Type(words.types[id]) == Byte
	}
	return u
}

// viterbi is the best way to a place in a text.
type viterbi struct {
	score float64
	from  int32
	id    int32 // None: an unknown character
	set   bool
}

// encode appends the tokens of a word.
func (u *unigram) encode(dst []int32, text string, s *scratch) []int32 {
	n := len(text)
	if cap(s.best) < n+1 {
		s.best = make([]viterbi, n+1)
	}
	best := s.best[:n+1]
	clear(best)
	for at := 0; at < n; {
		_, size := utf8.DecodeRuneInString(text[at:])
		base, single := best[at].score, false
		u.trie.prefixes(text[at:], func(length int, id int32) {
			to := &best[at+length]
			if score := base + float64(u.words.score(id)); !to.set || score > to.score {
				*to = viterbi{score, int32(at), id, true}
			}
			single = single || length == size
		})
		if to := &best[at+size]; !single && (!to.set || base+u.none > to.score) {
			*to = viterbi{base + u.none, int32(at), None, true}
		}
		at += size
	}
	path := s.starts[:0]
	for at := int32(n); at > 0; at = best[at].from {
		path = append(path, at)
	}
	s.starts = path
	for i := len(path) - 1; i >= 0; i-- {
		if id := best[path[i]].id; id != None {
			dst = append(dst, id)
			continue
		}
		from, to := best[path[i]].from, path[i]
		for i > 0 && best[path[i-1]].id == None { // unknown characters are one token
			i--
			to = path[i]
		}
		dst = u.missing(dst, text[from:to])
	}
	return dst
}

// missing appends the byte tokens of a text, or the unknown token.
func (u *unigram) missing(dst []int32, text string) []int32 {
	switch {
	case u.hasByte:
		for i := range len(text) {
			dst = append(dst, u.bytes[text[i]])
		}
	case u.unknown != None:
		dst = append(dst, u.unknown)
	}
	return dst
}

// splitMarks calls emit for each word: a space begins one.
func splitMarks(text string, emit func(string)) {
	from := 0
	for i := 1; i < len(text); i++ {
		if text[i] == ' ' || tooLong(from, i) && utf8.RuneStart(text[i]) {
			emit(text[from:i])
			from = i
		}
	}
	if from < len(text) {
		emit(text[from:])
	}
}

// fields appends the tokens of a text whose words white space separates, each with
// the space before it that the vocabulary prepends.
func (t *Tokenizer) fields(dst []int32, text string, s *scratch) []int32 {
	for word := range strings.FieldsFuncSeq(text, unicode.IsSpace) {
		word = unmark(word)
		if t.vocab.SpacePrefix != NoPrefix && word[0] != ' ' {
			word = " " + word
		}
		splitMarks(word, func(part string) { dst = s.cached(dst, part, t.unigram.encode) })
	}
	return dst
}

// trie finds the tokens that a text begins with.
type trie struct {
	ids   []int32 // by node: the token that ends here, or None
	slots []edge  // open addressing, a power of two
}

// edge leads from a node by a byte to another; key is node<<8 | byte, plus 1.
type edge struct {
	key  uint64
	next int32
}

func newTrie() trie { return trie{ids: []int32{None}, slots: make([]edge, 64)} }

// at returns the slot of a key: its edge, or an empty one.
func (t *trie) at(key uint64) *edge {
	mask := uint64(len(t.slots) - 1)
	for i := key * 0x9e3779b97f4a7c15 >> 20 & mask; ; i = (i + 1) & mask {
		if e := &t.slots[i]; e.key == 0 || e.key == key {
			return e
		}
	}
}

// add inserts a token; the first of two with the same text is kept.
func (t *trie) add(text string, id int32) {
	if text == "" {
		return
	}
	node := int32(0)
	for i := range len(text) {
		key := (uint64(node)<<8 | uint64(text[i])) + 1
		e := t.at(key)
		if e.key == 0 {
			if 2*len(t.ids) >= len(t.slots) {
				t.grow()
				e = t.at(key)
			}
			*e = edge{key, int32(len(t.ids))}
			t.ids = append(t.ids, None)
		}
		node = e.next
	}
	if t.ids[node] == None {
		t.ids[node] = id
	}
}

func (t *trie) grow() {
	old := t.slots
	t.slots = make([]edge, 2*len(old))
	for _, e := range old {
		if e.key != 0 {
			*t.at(e.key) = e
		}
	}
}

// prefixes calls emit for every token that text begins with, shortest first.
func (t *trie) prefixes(text string, emit func(length int, id int32)) {
	node := int32(0)
	for i := range len(text) {
		e := t.at((uint64(node)<<8 | uint64(text[i])) + 1)
		if e.key == 0 {
			return
		}
		if node = e.next; t.ids[node] != None {
			emit(i+1, t.ids[node])
		}
	}
}
