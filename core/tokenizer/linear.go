package tokenizer

import (
	"math"
	"math/bits"
)

// linear encodes text of any length in linear time, for byte pair encoding with
// merges in training order. It relies on a property of such merges: a sequence
// of tokens is the encoding of its text if and only if every two neighbors are
// the encoding of theirs. It takes the longest token that is compatible with
// the one before it, then shorter ones, and backtracks if none fits; a position
// found to be a dead end is not tried again. (Antwerpen and Neubeck, "So many
// tokens, so little time", 2024.)
type linear struct {
	pairs  *pairTable
	trie   []trieNode
	tokens []linearToken // by id
}

// linearToken is a byte or the union of two tokens.
type linearToken struct {
	left, right int32
	rank        int32 // of the merge; -1 for a byte
	size        int32 // bytes
	prefix      int32 // the longest proper prefix token, or None
}

// trieNode is a step of the search for the longest token: the set of continuing
// bytes, and the start of their nodes.
type trieNode struct {
	next  [4]uint64
	sum   [4]uint8 // bits set in the words before
	first int32
	token int32 // that ends here, or None
}

func (n *trieNode) step(b byte) (int32, bool) {
	word := n.next[b>>6]
	if word>>(b&63)&1 == 0 {
		return 0, false
	}
	return n.first + int32(n.sum[b>>6]) + int32(bits.OnesCount64(word&(1<<(b&63)-1))), true
}

// newLinear builds the tables, or returns nil if the property does not hold:
// each merge must join earlier tokens into a token that no other merge creates,
// and that token's text must encode to it.
func newLinear(b *bpe, merges int) *linear {
	if b.chars != nil || len(b.texts) > 0 || b.pairs.used != merges {
		return nil
	}
	l := &linear{pairs: b.pairs, tokens: make([]linearToken, b.tokens)}
	for i := range l.tokens {
		l.tokens[i] = linearToken{rank: math.MaxInt32, prefix: None}
	}
	for _, id := range b.bytes {
		l.tokens[id].rank, l.tokens[id].size = -1, 1
	}
	byRank := make([]pairSlot, merges)
	for _, s := range b.pairs.slots {
		if s.key != 0 {
			byRank[s.rank] = s
		}
	}
	for rank, s := range byRank {
		left, right := int32((s.key-1)>>32), int32(uint32(s.key-1))
		x, y, u := l.tokens[left], l.tokens[right], &l.tokens[s.union]
		if u.rank != math.MaxInt32 || x.rank >= int32(rank) || y.rank >= int32(rank) {
			return nil
		}
		*u = linearToken{left, right, int32(rank), x.size + y.size, None}
		if l.joined(left, right, false) {
			return nil
		}
	}
	l.plant(b)
	return l
}

// joined reports whether merging the texts of p and q next to each other joins
// them at their border. It goes back in time: the later of the two tokens at
// the border is split until both are bytes; a merge of the two counts if it
// precedes the use of either. pair selects whether merging p and q themselves
// counts.
func (l *linear) joined(p, q int32, pair bool) bool {
	usedP, usedQ := int32(math.MaxInt32), int32(math.MaxInt32)
	for {
		if pair {
			// Of two equal merges the left one goes first, hence < and <=.
			if rank, _ := l.pairs.get(p, q); rank < usedP && rank <= usedQ && rank != noRank {
				return true
			}
		}
		pair = true
		x, y := &l.tokens[p], &l.tokens[q]
		switch {
		case x.rank < 0 && y.rank < 0:
			return false
		case x.rank > y.rank:
			usedP, p = x.rank, x.right
		default:
			usedQ, q = y.rank, y.left
		}
	}
}

// plant builds the trie, level by level, so that the children of a node are
// contiguous.
func (l *linear) plant(b *bpe) {
	type entry struct {
		node int32
		ids  []int32 // tokens below the node
	}
	var all []int32
	for id, t := range l.tokens {
		if t.rank != math.MaxInt32 {
			all = append(all, int32(id))
		}
	}
	texts := make([]string, len(l.tokens))
	for b, id := range b.bytes {
		texts[id] = string([]byte{byte(b)})
	}
	for _, id := range byRank(l.tokens, all) {
		if t := l.tokens[id]; t.rank >= 0 {
			texts[id] = texts[t.left] + texts[t.right]
		}
	}
	l.trie = []trieNode{{token: None}}
	level := []entry{{0, all}}
	for depth := 0; len(level) > 0; depth++ {
		var below []entry
		for _, e := range level {
			children := make(map[byte][]int32)
			for _, id := range e.ids {
				if len(texts[id]) > depth {
					children[texts[id][depth]] = append(children[texts[id][depth]], id)
				}
			}
			n := &l.trie[e.node]
			n.first = int32(len(l.trie))
			for c := range children {
				n.next[c>>6] |= 1 << (c & 63)
			}
			for w := 1; w < 4; w++ {
				n.sum[w] = n.sum[w-1] + uint8(bits.OnesCount64(n.next[w-1]))
			}
			for c := range 256 {
				ids := children[byte(c)]
				if len(ids) == 0 {
					continue
				}
				child := trieNode{token: None}
				for _, id := range ids {
					if len(texts[id]) == depth+1 {
						child.token = id
					}
				}
				below = append(below, entry{int32(len(l.trie)), ids})
				l.trie = append(l.trie, child)
			}
		}
		level = below
	}
	for _, id := range all {
		if text := texts[id]; len(text) > 1 {
			l.tokens[id].prefix = l.longest(text[:len(text)-1])
		}
	}
}

// byRank orders token ids by the rank of their merges.
func byRank(tokens []linearToken, ids []int32) []int32 {
	out := make([]int32, 0, len(ids))
	at := make(map[int32]int32, len(ids))
	most := int32(-1)
	for _, id := range ids {
		if rank := tokens[id].rank; rank >= 0 {
			at[rank] = id
			most = max(most, rank)
		}
	}
	for rank := int32(0); rank <= most; rank++ {
		if id, ok := at[rank]; ok {
			out = append(out, id)
		}
	}
	return out
}

// longest returns the longest token that is a prefix of s; s is not empty.
func (l *linear) longest(s string) int32 {
	token, node := None, &l.trie[0]
	for i := range len(s) {
		next, ok := node.step(s[i])
		if !ok {
			break
		}
		if node = &l.trie[next]; node.token != None {
			token = node.token
		}
	}
	return token
}

// cachedPairs is the number of joined results that an Encode caches.
const cachedPairs = 1 << 14

// fits caches !joined(p, q, true).
func (l *linear) fits(p, q int32, s *scratch) bool {
	key := pairKey(p, q) << 1
	slot := &s.pairs[key*0x9e3779b97f4a7c15>>(64-14)]
	if *slot&^1 == key {
		return *slot&1 == 1
	}
	*slot = key
	if !l.joined(p, q, true) {
		*slot |= 1
		return true
	}
	return false
}

// encode appends the tokens of text, which is not empty. It returns false if no
// sequence of tokens fits, which does not occur with merges learned from text.
func (l *linear) encode(dst []int32, text string, s *scratch) ([]int32, bool) {
	if s.pairs == nil {
		s.pairs = make([]uint64, cachedPairs)
	}
	words := len(text)/64 + 1
	if cap(s.dead) < words {
		s.dead = make([]uint64, words)
	}
	dead := s.dead[:words]
	clear(dead)

	from, pos := len(dst), 0
	next := l.longest(text)
	for {
		last := None
		if len(dst) > from {
			last = dst[len(dst)-1]
		}
		token := next
		for token != None {
			end := pos + int(l.tokens[token].size)
			if dead[end>>6]>>(end&63)&1 == 0 && (last == None || l.fits(last, token, s)) {
				break
			}
			token = l.tokens[token].prefix
		}
		if token == None { // dead end: backtrack
			if last == None {
				return dst, false
			}
			dead[pos>>6] |= 1 << (pos & 63)
			dst = dst[:len(dst)-1]
			pos -= int(l.tokens[last].size)
			next = last
			continue
		}
		dst = append(dst, token)
		if pos += int(l.tokens[token].size); pos == len(text) {
			return dst, true
		}
		next = l.longest(text[pos:])
	}
}
