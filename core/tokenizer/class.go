package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is what the pre-tokenizers want to know of a character: its Unicode
// general category, coarsely, and whether it is white space. 0 stands for the
// end of the text; every character has at least one bit.
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

// asciiClass answers for the first 128 characters without a table in memory
// that is touched rarely.
var asciiClass = func() (t [utf8.RuneSelf]class) {
	for r := range t {
		t[r] = classify(rune(r))
	}
	return t
}()

// pages holds the classes of all characters, 256 a page, equal pages shared.
// It is built at the first character beyond ASCII.
var pages = sync.OnceValue(func() *[(unicode.MaxRune + 1) / 256]*[256]class {
	table := new([(unicode.MaxRune + 1) / 256]*[256]class)
	known := make(map[[256]class]*[256]class)
	for p := range table {
		var page [256]class
		for i := range page {
			page[i] = classify(rune(p*256 + i))
		}
		if known[page] == nil {
			known[page] = &page
		}
		table[p] = known[page]
	}
	return table
})

// classify asks package unicode.
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

// at gives the class and the length in bytes of the character at s[i]; both
// are 0 at the end. A byte that is no UTF-8 counts as one symbol, as the
// replacement character is one.
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

// run gives the end of the run of characters in mask that begins at i.
func run(s string, i int, mask class) int {
	for {
		c, n := at(s, i)
		if c&mask == 0 {
			return i
		}
		i += n
	}
}

// runOf is run for characters outside of mask.
func runOf(s string, i int, without class) int {
	for {
		c, n := at(s, i)
		if n == 0 || c&without != 0 {
			return i
		}
		i += n
	}
}
