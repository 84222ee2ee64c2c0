package tokenizer

import (
	"hash/maphash"
	"strings"
)

// scratch is the memory of one Encode, pooled.
type scratch struct {
	symbols []int32
	starts  []int32
	ranks   [short]int32
	unions  [short]int32
	links   []link
	queue   queue
	pairs   []uint64 // of linear: cached results of fits
	dead    []uint64 // of linear: a bit for each dead end
	best    []viterbi
	words   [cacheWords]cachedWord
}

// maxPart is the longest text, in bytes, that is merged as one: beyond it
// positions would not fit into 32 bits. Real words do not reach 256 MiB.
const maxPart = 1 << 28

// tooLong reports whether the part that starts at from ends at i at the latest.
func tooLong(from, i int) bool { return i-from >= maxPart }

// link chains symbols in mergeLong. Size counts the initial symbols.
type link struct{ prev, next, size int32 }

// chain returns n linked symbols.
func (s *scratch) chain(n int) []link {
	if cap(s.links) < n {
		s.links = make([]link, n)
	}
	s.links = s.links[:n]
	for i := range s.links {
		s.links[i] = link{int32(i) - 1, int32(i) + 1, 1}
	}
	return s.links
}

// The cache of words: most words of a text have occurred just before. Each word
// has one slot; a new word replaces the old.
const (
	cacheWords = 8192
	cacheBytes = 48 // longer words are not cached
)

type cachedWord struct {
	text string
	ids  []int32
}

// cacheSeed distributes words over slots. Collisions do not change the result
// of Encode.
var cacheSeed = maphash.MakeSeed()

// cached appends the tokens of a word, from the cache or from encode.
func (s *scratch) cached(dst []int32, word string, encode func([]int32, string, *scratch) []int32) []int32 {
	if len(word) > cacheBytes {
		return encode(dst, word, s)
	}
	entry := &s.words[maphash.String(cacheSeed, word)%cacheWords]
	if entry.text == word {
		return append(dst, entry.ids...)
	}
	from := len(dst)
	dst = encode(dst, word, s)
	entry.text = strings.Clone(word)
	entry.ids = append(entry.ids[:0], dst[from:]...)
	return dst
}
