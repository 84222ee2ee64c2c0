package tokenizer

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"
)

// bpe merges pairs by rank. Its symbols are token ids; a merge result that is
// not a token is a symbol beyond them, encoded as bytes.
type bpe struct {
	pairs *pairTable
	// texts are the texts of symbols beyond the vocabulary, indexed by symbol
	// minus the number of tokens.
	texts  []string
	tokens int
	// bytes maps each byte to its symbol, or None.
	bytes [256]int32
	// ends maps the last byte of a word to its symbol if words have a suffix,
	// otherwise nil.
	ends []int32
	// chars finds the symbols of single characters, extra those without a token;
	// nil if symbols start as bytes.
	chars *lexicon
	extra map[string]int32
	// kept are the merges, unless the pairs determine them.
	kept []Merge
	// unknown is the token for text without a token or byte tokens.
	unknown int32
	// joins holds the byte pairs at which a merge can join two sides.
	joins byteJoins
	// linear encodes text that is not split into words; nil if its condition
	// does not hold.
	linear *linear
	// drops is set if characters without a token are left out before merging,
	// so that their neighbors merge: tokenizers without an unknown token do so.
	drops bool
}

// byteJoins is a set of byte pairs. A merge cannot cross two neighboring bytes
// outside the set, so text splits there into parts that are merged separately:
// the tokens are the same, and the parts are short and repeat.
type byteJoins [256][4]uint64

func (j *byteJoins) add(a, b byte)      { j[a][b>>6] |= 1 << (b & 63) }
func (j *byteJoins) has(a, b byte) bool { return j[a][b>>6]>>(b&63)&1 != 0 }

// newBPE builds the tables of a tokenizer whose tokens are indexed.
func newBPE(t *Tokenizer, merges mergeList) (*bpe, error) {
	v := &t.vocab
	b := &bpe{tokens: t.words.size(), unknown: v.Special.Unknown, pairs: newPairTable(merges.n)}
	n := &interner{t: t, b: b}
	for i := range b.bytes {
		b.bytes[i] = None
		switch id, ok := t.words.find(ByteToken(byte(i))); {
		case !t.pre.Chars:
			b.bytes[i] = n.symbol(string(alphabet[i]), "")
		case ok && (Type(t.words.types[id]) == Byte || !v.Stated):
			b.bytes[i] = id
		}
	}
	if err := n.suffixed(v.Suffix); err != nil {
		return nil, err
	}
	b.drops = v.Stated && t.pre.Chars && b.unknown == None && slices.Contains(b.bytes[:], None)
	rank := -1
	for m, err := range merges.all {
		rank++
		if err != nil {
			return nil, fmt.Errorf("merge %d: %w", rank, err)
		}
		before, after, err := t.border(m)
		if err != nil {
			return nil, fmt.Errorf("merge %d: %w", rank, err)
		}
		b.pairs.put(n.symbol(m.Left, ""), n.symbol(m.Right, ""), int32(rank), n.symbol(m.Left, m.Right))
		b.joins.add(before, after)
	}
	if len(b.texts) > 0 && b.ends != nil {
		return nil, fmt.Errorf("a symbol or merge without a token, of a vocabulary with the suffix %s: %.99q", v.Suffix, b.texts[0])
	}
	if b.tokens+len(b.texts) > math.MaxInt32/2 {
		return nil, fmt.Errorf("too many texts in merges")
	}
	if t.pre.Chars {
		b.chars = t.words
		b.extra = n.extra
	}
	if len(b.texts) > 0 || b.pairs.used != merges.n {
		b.kept = merges.list()
	}
	return b, nil
}

// mergeList is a sequence of n merges; the texts may alias a file.
type mergeList struct {
	n   int
	all iter.Seq2[Merge, error]
}

// list copies the merges, which are valid.
func (l mergeList) list() []Merge {
	out := make([]Merge, 0, l.n)
	for m := range l.all {
		out = append(out, Merge{strings.Clone(m.Left), strings.Clone(m.Right)})
	}
	return out
}

// mergesOf returns the merges of a slice.
func mergesOf(merges []Merge) mergeList {
	return mergeList{len(merges), func(yield func(Merge, error) bool) {
		for _, m := range merges {
			if !yield(m, nil) {
				return
			}
		}
	}}
}

// merges returns the merges in training order.
func (b *bpe) merges(words *lexicon) []Merge {
	if b.kept != nil || b.pairs.used == 0 {
		return b.kept
	}
	out := make([]Merge, b.pairs.used)
	for _, s := range b.pairs.slots {
		if s.key != 0 {
			out[s.rank] = Merge{words.text(int32((s.key - 1) >> 32)), words.text(int32(uint32(s.key - 1)))}
		}
	}
	return out
}

// interner assigns symbols to the texts of merges.
type interner struct {
	t     *Tokenizer
	b     *bpe
	extra map[string]int32 // beyond the vocabulary, by text
	join  []byte
	last  int32 // the union before: merges mostly create tokens in order
}

// symbol returns the symbol of left+right. Control tokens are excluded: merging
// must not create one.
func (n *interner) symbol(left, right string) int32 {
	words := n.t.words
	if next := n.last + 1; right != "" && int(next) < words.size() && words.isInText(next) && joins(words.text(next), left, right) {
		n.last = next
		return next
	}
	n.join = append(append(n.join[:0], left...), right...)
	if id, ok := words.find(unsafe.String(unsafe.SliceData(n.join), len(n.join))); ok && words.isInText(id) {
		if right != "" {
			n.last = id
		}
		return id
	}
	text := unmark(string(n.join))
	if !n.t.pre.Chars {
		text, _ = FromAlphabet(string(n.join)) // validated by border
	}
	id, ok := n.extra[text]
	if !ok {
		if n.extra == nil {
			n.extra = make(map[string]int32)
		}
		id = int32(n.b.tokens + len(n.b.texts))
		n.b.texts = append(n.b.texts, text)
		n.extra[text] = id
	}
	return id
}

// suffixed finds the symbols of the last bytes of words with a suffix.
func (n *interner) suffixed(suffix string) error {
	if suffix == "" {
		return nil
	}
	if n.t.pre.Chars || !n.t.pre.Cuts() {
		return fmt.Errorf("suffix %s of words without a pre-tokenizer on bytes", suffix)
	}
	n.b.ends = make([]int32, len(alphabet))
	for i, r := range alphabet {
		n.b.ends[i] = n.symbol(string(r), suffix)
	}
	return nil
}

// joins reports whether text is left followed by right.
func joins(text, left, right string) bool {
	return len(text) == len(left)+len(right) && text[:len(left)] == left && text[len(left):] == right
}

// border validates the two texts of a merge and returns the bytes at their
// border.
func (t *Tokenizer) border(m Merge) (before, after byte, err error) {
	if m.Left == "" || m.Right == "" || len(m.Left)+len(m.Right) > maxTokenBytes {
		return 0, 0, fmt.Errorf("%.99q and %.99q: empty side or more than %d bytes", m.Left, m.Right, maxTokenBytes)
	}
	if t.pre.Chars {
		before, after = m.Left[len(m.Left)-1], m.Right[0]
		if strings.HasSuffix(m.Left, spaceMark) {
			before = ' '
		}
		if strings.HasPrefix(m.Right, spaceMark) {
			after = ' '
		}
		return before, after, nil
	}
	for _, side := range []string{m.Left, m.Right} {
		for _, r := range side {
			if int(r) >= len(byteOfRune) || byteOfRune[r] > 0xff {
				return 0, 0, fmt.Errorf("%.99q and %.99q: character outside the byte alphabet", m.Left, m.Right)
			}
		}
	}
	l, _ := utf8.DecodeLastRuneInString(m.Left)
	r, _ := utf8.DecodeRuneInString(m.Right)
	return byte(byteOfRune[l]), byte(byteOfRune[r]), nil
}

// short is the longest word, in symbols, whose pairs are searched linearly;
// beyond it a heap is faster.
const short = 24

// encode appends the tokens of a word. The caller caches words, so parts are
// not cached.
func (b *bpe) encode(dst []int32, word string, s *scratch) []int32 {
	word = b.dropUnknown(word)
	from := 0
	for i := 1; i < len(word); i++ {
		if b.boundary(word, i) || tooLong(from, i) && utf8.RuneStart(word[i]) {
			dst = b.part(dst, word[from:i], s)
			from = i
		}
	}
	if b.ends != nil && word != "" {
		return b.last(dst, word[from:], s)
	}
	return b.part(dst, word[from:], s)
}

// last appends the tokens of the last part of a word with a suffix.
func (b *bpe) last(dst []int32, text string, s *scratch) []int32 {
	syms := s.symbols[:0]
	for i := range len(text) {
		syms = append(syms, b.bytes[text[i]])
	}
	syms[len(syms)-1] = b.ends[text[len(text)-1]]
	s.symbols = syms
	return b.merge(dst, syms, s)
}

// encodeText appends the tokens of text that is not split into words.
func (b *bpe) encodeText(dst []int32, text string, s *scratch) []int32 {
	text = b.dropUnknown(text)
	if b.linear != nil {
		if ids, ok := b.linear.encode(dst, text, s); ok {
			return ids
		}
	}
	from := 0
	for i := 1; i < len(text); i++ {
		if b.boundary(text, i) || tooLong(from, i) && utf8.RuneStart(text[i]) {
			dst = s.cached(dst, text[from:i], b.part)
			from = i
		}
	}
	return s.cached(dst, text[from:], b.part)
}

// dropUnknown returns text without the characters that are dropped.
func (b *bpe) dropUnknown(text string) string {
	if !b.drops {
		return text
	}
	return strings.Map(func(r rune) rune {
		piece := string(r)
		if _, ok := b.chars.findPiece(piece); ok {
			return r
		}
		if _, ok := b.extra[piece]; ok || len(b.fallback(nil, piece)) > 0 {
			return r
		}
		return -1
	}, text)
}

// boundary reports whether no merge crosses position i.
func (b *bpe) boundary(text string, i int) bool {
	return !b.joins.has(text[i-1], text[i]) && (b.chars == nil || utf8.RuneStart(text[i]))
}

// part appends the tokens of a part that is merged separately.
func (b *bpe) part(dst []int32, text string, s *scratch) []int32 {
	if b.chars == nil {
		syms := s.symbols[:0]
		for i := range len(text) {
			syms = append(syms, b.bytes[text[i]])
		}
		s.symbols = syms
		return b.merge(dst, syms, s)
	}
	syms := s.symbols[:0]
	for i := 0; i < len(text); {
		_, n := utf8.DecodeRuneInString(text[i:])
		id, ok := b.chars.findPiece(text[i : i+n])
		if !ok {
			id, ok = b.extra[text[i:i+n]]
		}
		if ok {
			syms = append(syms, id)
		} else { // a character without a token does not merge
			dst = b.merge(dst, syms, s)
			syms = syms[:0]
			dst = b.fallback(dst, text[i:i+n])
		}
		i += n
	}
	s.symbols = syms
	return b.merge(dst, syms, s)
}

// merge merges symbols until no pair has a rank, and appends their tokens.
func (b *bpe) merge(dst []int32, syms []int32, s *scratch) []int32 {
	if len(syms) <= short {
		syms = b.mergeShort(syms, s)
	} else {
		syms = b.mergeLong(syms, s)
	}
	for _, id := range syms {
		if int(id) < b.tokens {
			dst = append(dst, id)
		} else {
			dst = b.fallback(dst, b.texts[int(id)-b.tokens])
		}
	}
	return dst
}

// fallback appends the byte tokens of a text without a token. If one is
// missing, it appends the unknown token, if any.
func (b *bpe) fallback(dst []int32, text string) []int32 {
	return appendBytes(dst, text, &b.bytes, b.tokens, b.unknown)
}

func appendBytes(dst []int32, text string, bytes *[256]int32, tokens int, unknown int32) []int32 {
	from := len(dst)
	for i := range len(text) {
		id := bytes[text[i]]
		if id == None || int(id) >= tokens {
			if dst = dst[:from]; unknown != None {
				dst = append(dst, unknown)
			}
			return dst
		}
		dst = append(dst, id)
	}
	return dst
}

// mergeShort searches for the best pair before each merge.
func (b *bpe) mergeShort(syms []int32, s *scratch) []int32 {
	ranks, unions := &s.ranks, &s.unions
	for i := 0; i+1 < len(syms); i++ {
		ranks[i], unions[i] = b.pairs.get(syms[i], syms[i+1])
	}
	for len(syms) > 1 {
		best, at := noRank, 0
		for i, r := range ranks[:len(syms)-1] {
			if r < best {
				best, at = r, i
			}
		}
		if best == noRank {
			break
		}
		syms[at] = unions[at]
		syms = append(syms[:at+1], syms[at+2:]...)
		copy(ranks[at+1:len(syms)], ranks[at+2:len(syms)+1])
		copy(unions[at+1:len(syms)], unions[at+2:len(syms)+1])
		if at+1 < len(syms) {
			ranks[at], unions[at] = b.pairs.get(syms[at], syms[at+1])
		}
		if at > 0 {
			ranks[at-1], unions[at-1] = b.pairs.get(syms[at-1], syms[at])
		}
	}
	return syms
}

// mergeLong keeps the pairs in a heap: O(n log n).
func (b *bpe) mergeLong(syms []int32, s *scratch) []int32 {
	n := int32(len(syms))
	links := s.chain(len(syms))
	q := s.queue[:0]
	push := func(left, right int32) {
		if rank, _ := b.pairs.get(syms[left], syms[right]); rank != noRank {
			q.push(candidate{uint64(rank)<<32 | uint64(left), right, links[left].size + links[right].size})
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
		_, syms[left] = b.pairs.get(syms[left], syms[right])
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
	out := syms[:0]
	for i := int32(0); i < n; i = links[i].next {
		out = append(out, syms[i])
	}
	return out
}
