package tokenizer

import (
	"hash/maphash"
	"strings"
)

// scratch is the memory that one Encode works in; a pool keeps them.
type scratch struct {
	symbols []int32
	starts  []int32
	ranks   [short]int32
	unions  [short]int32
	links   []link
	queue   queue
	known   []uint64 // of linear: pairs with whether they fit
	dead    []uint64 // of linear: a bit for each place that leads nowhere
	words   [cacheWords]cachedWord
}

// maxPart is the longest text, in bytes, that is merged as one: beyond it
// places would not fit into 32 bits. Nobody writes a word of 256 MiB.
const maxPart = 1 << 28

// link chains symbols in mergeLong. Size counts the symbols it began as.
type link struct{ prev, next, size int32 }

// chain gives n links in a row.
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

// The cache of words: language repeats itself, so most words have been
// encoded a moment ago. Each word has one place; a newcomer takes it.
const (
	cacheWords = 8192
	cacheBytes = 48 // longer words are not kept
)

type cachedWord struct {
	text string
	ids  []int32
}

// cacheSeed scatters words over their places. Which words share a place does
// not change what Encode gives.
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
