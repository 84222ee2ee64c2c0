package grammar

import (
	"cmp"
	"math/bits"
	"slices"
	"unicode/utf8"

	"mm-abi.org/mm/core/tokenizer"
)

// Bitset has a bit for each token of a vocabulary.
type Bitset []uint64

func newBitset(n int) Bitset { return make(Bitset, (n+63)/64) }

// Has reports whether a token is in the set.
func (b Bitset) Has(id int32) bool {
	return id >= 0 && int(id)>>6 < len(b) && b[id>>6]>>(uint(id)&63)&1 != 0
}

// Count is the number of tokens in the set.
func (b Bitset) Count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

func (b Bitset) add(id int32) { b[id>>6] |= 1 << (uint(id) & 63) }

// set puts a token into the set or takes it out.
func (b Bitset) set(id int32, in bool) {
	b.add(id)
	if !in {
		b[id>>6] &^= 1 << (uint(id) & 63)
	}
}

func (b Bitset) union(o Bitset) {
	for i, w := range o {
		b[i] |= w
	}
}

// Vocabulary is what grammars need to know of a tokenizer. It is immutable; one
// serves any number of grammars.
type Vocabulary struct {
	tok     *tokenizer.Tokenizer
	size    int
	all     trie     // of tokens that are text
	odd     trie     // of those which a string of JSON does not hold as they are
	plain   []Bitset // the others, by the number of characters: of 0, of 1 at most …
	longest int      // bytes of a token in odd
	bytes   [256]int // tokens of one byte
	texts   Bitset   // what a mask may hold
	ends    []int32
}

// trie is the tokens in the order of their bytes, as one walks over a tree.
type trie struct {
	bytes []byte  // by node
	depth []int32 // by node, from 1
	skip  []int32 // by node: the first that is not below it
	first []int32 // by node: where its tokens begin; one more at the end
	ids   []int32
}

// Read reads a tokenizer. Tokens whose type says that they are no text, or are
// found in it as a whole, are left out: what they spell can be spelt without.
func Read(tok *tokenizer.Tokenizer) *Vocabulary {
	v := &Vocabulary{tok: tok, size: tok.Size(), texts: newBitset(tok.Size())}
	var all, odd []entry
	var plain [][]int32
	for id := range int32(v.size) {
		if tok.Ends(id) {
			v.ends = append(v.ends, id)
			continue
		}
		piece := tok.Piece(id)
		if t := tok.Type(id); t != tokenizer.Normal && t != tokenizer.Byte || piece == "" {
			continue
		}
		if len(piece) == 1 {
			v.bytes[piece[0]]++
		}
		v.texts.add(id)
		all = append(all, entry{piece, id})
		if !asItIs(piece) {
			odd = append(odd, entry{piece, id})
			v.longest = max(v.longest, len(piece))
			continue
		}
		n := utf8.RuneCountInString(piece)
		for len(plain) <= n {
			plain = append(plain, nil)
		}
		plain[n] = append(plain[n], id)
	}
	v.all, v.odd = newTrie(all), newTrie(odd)
	sum := newBitset(v.size)
	for _, ids := range plain {
		for _, id := range ids {
			sum.add(id)
		}
		v.plain = append(v.plain, slices.Clone(sum))
	}
	if v.plain == nil {
		v.plain = []Bitset{sum}
	}
	return v
}

// asItIs reports whether a string of JSON holds a text as it is.
func asItIs(text string) bool {
	for _, r := range text {
		if r < ' ' || r == '"' || r == '\\' {
			return false
		}
	}
	return utf8.ValidString(text)
}

// upTo are the plain tokens of n characters at most.
func (v *Vocabulary) upTo(n int) Bitset { return v.plain[min(max(n, 0), len(v.plain)-1)] }

type entry struct {
	text string
	id   int32
}

func newTrie(list []entry) (t trie) {
	slices.SortFunc(list, func(a, b entry) int { return cmp.Or(cmp.Compare(a.text, b.text), cmp.Compare(a.id, b.id)) })
	var path []int32 // nodes of the text before
	var last string
	for _, e := range list {
		same := 0
		for same < len(last) && same < len(e.text) && last[same] == e.text[same] {
			same++
		}
		for _, n := range path[same:] {
			t.skip[n] = int32(len(t.bytes))
		}
		path = path[:same]
		for i := same; i < len(e.text); i++ {
			path = append(path, int32(len(t.bytes)))
			t.bytes = append(t.bytes, e.text[i])
			t.depth = append(t.depth, int32(i+1))
			t.skip = append(t.skip, 0)
			t.first = append(t.first, int32(len(t.ids)))
		}
		t.ids = append(t.ids, e.id)
		last = e.text
	}
	for _, n := range path {
		t.skip[n] = int32(len(t.bytes))
	}
	t.first = append(t.first, int32(len(t.ids)))
	return t
}
