package grammar

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// trie is tokens sorted by bytes, in the order of a tree walk.
type trie struct {
	bytes  []byte  // by node
	depth  []int32 // by node, from 1
	skip   []int32 // by node: the next node outside its subtree
	first  []int32 // by node: start of its tokens; one more at the end
	kinds  []kinds // by node: of the bytes in its subtree
	height []int32 // by node: height of its subtree in bytes
	ids    []int32
	root   [256]int32 // by first byte: its node, or -1
	tall   int        // the longest token
	words  []words    // of the tokens of letters and digits
}

// kinds is a set of kinds of bytes, which grammars mostly treat alike.
type kinds uint64

// The kinds: digits, letters in four parts, since hexadecimal ones are often
// separate, control characters, each other ASCII character, and non-ASCII
// bytes, in tokens of whole characters and in others.
const (
	digits kinds = 1 << iota
	lowerHex
	lower
	upperHex
	upper
	controls
	whole8
	part8
	firstSign // the first of a single character

	wordyKinds = digits | lowerHex | lower | upperHex | upper
)

// kindOf maps each ASCII byte to its kind, membersOf is its inverse, and
// plainKinds are the kinds that a JSON string contains unescaped.
var kindOf, membersOf, plainKinds = sortKinds()

func sortKinds() (of [utf8.RuneSelf]kinds, members map[kinds][]byte, plain kinds) {
	members = map[kinds][]byte{}
	sign := firstSign
	for b := range byte(utf8.RuneSelf) {
		switch {
		case b < ' ':
			of[b] = controls
		case b >= '0' && b <= '9':
			of[b] = digits
		case b >= 'a' && b <= 'f':
			of[b] = lowerHex
		case b >= 'g' && b <= 'z':
			of[b] = lower
		case b >= 'A' && b <= 'F':
			of[b] = upperHex
		case b >= 'G' && b <= 'Z':
			of[b] = upper
		default:
			of[b] = sign
			sign <<= 1
		}
		members[of[b]] = append(members[of[b]], b)
		if b >= ' ' && b != '"' && b != '\\' {
			plain |= of[b]
		}
	}
	return of, members, plain
}

// words is the part of a trie of letters and digits whose tokens have bytes of some
// kinds only.
type words struct {
	kinds  kinds
	upTo   []Bitset  // by length: the tokens of at most that length
	levels [][]int32 // by number of such bytes: the nodes after them, of any kind
	// The bytes of the trie, and those of other kinds.
	all, others [4]uint64
}

// wordKinds are the kinds of frequent classes of characters.
var wordKinds = [...]kinds{wordyKinds, digits | lowerHex | lower, lowerHex | lower | upperHex | upper, lowerHex | lower}

// newWords indexes a trie by length, for a vocabulary of a size.
func newWords(t *trie, of kinds, size int) words {
	w := words{kinds: of, levels: make([][]int32, t.tall+1)}
	ids := make([][]int32, t.tall+1)
	for i := int32(0); i < int32(len(t.bytes)); {
		b, above := t.bytes[i], t.depth[i]-1
		w.all[b>>6] |= 1 << (b & 63)
		w.levels[above] = append(w.levels[above], i)
		if kindOf[b]&^of != 0 {
			i = t.skip[i]
			continue
		}
		ids[above+1] = append(ids[above+1], t.ids[t.first[i]:t.first[i+1]]...)
		i++
	}
	for b := range t.root {
		if t.root[b] >= 0 && kindOf[b]&^of != 0 {
			w.others[b>>6] |= 1 << (b & 63)
		}
	}
	sum := newBitset(size)
	for _, list := range ids {
		sum = slices.Clone(sum)
		sum.addAll(list)
		w.upTo = append(w.upTo, sum)
	}
	return w
}

type entry struct {
	text string
	id   int32
}

// newTrie sorts tokens; complete marks them as whole characters.
func newTrie(list []entry, complete bool) (t trie) {
	slices.SortFunc(list, func(a, b entry) int { return cmp.Or(cmp.Compare(a.text, b.text), cmp.Compare(a.id, b.id)) })
	var path []int32 // nodes of the previous text
	var last string
	beyond := part8
	if complete {
		beyond = whole8
	}
	// cut closes the nodes of the path from a depth on.
	cut := func(depth int) {
		for d := len(path) - 1; d >= depth; d-- {
			n := path[d]
			t.skip[n] = int32(len(t.bytes))
			if d == 0 {
				continue
			}
			kind, up := beyond, path[d-1]
			if t.bytes[n] < utf8.RuneSelf {
				kind = kindOf[t.bytes[n]]
			}
			t.kinds[up] |= t.kinds[n] | kind
			t.height[up] = max(t.height[up], t.height[n]+1)
		}
		path = path[:depth]
	}
	for b := range t.root {
		t.root[b] = -1
	}
	for _, e := range list {
		same := 0
		for same < len(last) && same < len(e.text) && last[same] == e.text[same] {
			same++
		}
		cut(same)
		for i := same; i < len(e.text); i++ {
			path = append(path, int32(len(t.bytes)))
			t.bytes = append(t.bytes, e.text[i])
			t.depth = append(t.depth, int32(i+1))
			t.skip = append(t.skip, 0)
			t.first = append(t.first, int32(len(t.ids)))
			t.kinds = append(t.kinds, 0)
			t.height = append(t.height, 0)
		}
		if same == 0 {
			t.root[e.text[0]] = path[0]
		}
		t.ids = append(t.ids, e.id)
		t.tall = max(t.tall, len(e.text))
		last = e.text
	}
	cut(0)
	t.first = append(t.first, int32(len(t.ids)))
	return t
}

// find returns the node of a text, or -1.
func (t *trie) find(text string) int32 {
	if text == "" {
		return -1
	}
	i := t.root[text[0]]
	if i < 0 {
		return -1
	}
	for d := 1; d < len(text); d++ {
		below := i + 1
		for end := t.skip[i]; ; below = t.skip[below] {
			if below >= end {
				return -1
			}
			if t.bytes[below] == text[d] {
				break
			}
		}
		i = below
	}
	return i
}
