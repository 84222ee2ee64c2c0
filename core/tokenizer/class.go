package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is a character's coarse Unicode general category plus white space, as
// used by the pre-tokenizers. 0 is the end of the text; every character has at
// least one bit.
type class uint16

const (
	lower    class = 1 << iota // Ll
	upper                      // Lu, Lt
	caseless                   // Lm, Lo
	mark                       // M
	number                     // N
	punct                      // P
	symbol                     // S
	space                      // White_Space
	other                      // everything else

	letter = lower | upper | caseless
)

// asciiClass holds the first 128 characters, to avoid a rarely cached table.
var asciiClass = func() (t [utf8.RuneSelf]class) {
	for r := range t {
		t[r] = classify(rune(r))
	}
	return t
}()

// pages holds the classes of all characters in pages of 256, sharing equal
// pages. It is built at the first non-ASCII character.
var pages = sync.OnceValue(func() *[(unicode.MaxRune + 1) / 256]*[256]class {
	table := new([(unicode.MaxRune + 1) / 256]*[256]class)
	seen := make(map[[256]class]*[256]class)
	for p := range table {
		var page [256]class
		for i := range page {
			page[i] = classify(rune(p*256 + i))
		}
		if seen[page] == nil {
			seen[page] = &page
		}
		table[p] = seen[page]
	}
	return table
})

// classify computes the class with package unicode.
func classify(r rune) class {
	var c class
	switch {
	case unicode.Is(unicode.Ll, r):
		c = lower
	case unicode.Is(unicode.Lu, r), unicode.Is(unicode.Lt, r):
		c = upper
	case unicode.Is(unicode.L, r):
		c = caseless
	case unicode.Is(unicode.M, r):
		c = mark
	case unicode.Is(unicode.N, r):
		c = number
	case unicode.Is(unicode.P, r):
		c = punct
	case unicode.Is(unicode.S, r):
		c = symbol
	default:
		c = other
	}
	if unicode.Is(unicode.White_Space, r) {
		c |= space
	}
	return c
}

// at returns the class and the length in bytes of the character at s[i]; both
// are 0 at the end. An invalid byte is one symbol, like the replacement
// character.
func at(s string, i int) (class, int) {
	if i >= len(s) {
		return 0, 0
	}
	if b := s[i]; b < utf8.RuneSelf {
		return asciiClass[b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return pages()[r>>8][r&0xff], n
}

// run returns the end of the run of characters in mask that starts at i.
func run(s string, i int, mask class) int {
	for {
		c, n := at(s, i)
		if c&mask == 0 {
			return i
		}
		i += n
	}
}

// runOf returns the end of the run of characters outside the mask.
func runOf(s string, i int, without class) int {
	for {
		c, n := at(s, i)
		if n == 0 || c&without != 0 {
			return i
		}
		i += n
	}
}
