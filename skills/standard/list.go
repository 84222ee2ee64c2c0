package standard

import (
	_ "embed"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	aho "github.com/BobuSumisu/aho-corasick"
)

//go:embed blocklist.txt
var blocklist string

// list parses the embedded list into the kind and the normalized words of each
// entry.
func list() (kinds, words []string, err error) {
	for i, line := range strings.Split(blocklist, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		kind, entry, ok := strings.Cut(line, "\t")
		h := string(normalize(entry).text)
		if !ok || kind == "" || strings.TrimSpace(h) == "" {
			return nil, nil, fmt.Errorf("word list: line %d: want a kind and words", i+1)
		}
		kinds, words = append(kinds, kind), append(words, h)
	}
	return kinds, words, nil
}

// normalized is a normalized text with the source offset of each byte.
type normalized struct {
	source string
	text   []byte
	from   []int // of a byte of text: offset of its character in source
	to     []int // and of its end
}

// sounds maps signs that stand for letters.
var sounds = map[rune]rune{'0': 'o', '1': 'i', '3': 'e', '4': 'a', '5': 's', '7': 't', '@': 'a', '$': 's', '!': 'i', '|': 'i'}

// normalize returns a text in lower case without accents and invisible
// characters, with signs within words replaced by the letters they stand for
// and one space between words.
func normalize(text string) normalized {
	h := normalized{source: text}
	space := true
	for i, r := range text {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, size = utf8.DecodeRuneInString(text[i:])
		}
		if unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Mn, r) { // zero-width, soft hyphens, combining accents
			continue
		}
		r = plain(unicode.ToLower(r))
		if s, ok := sounds[r]; ok && within(text, i, size) {
			r = s
		}
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			if space {
				continue
			}
			r = ' '
		}
		space = r == ' '
		for _, b := range []byte(string(r)) {
			h.text = append(h.text, b)
			h.from, h.to = append(h.from, i), append(h.to, i+size)
		}
	}
	return h
}

// within reports whether a sign is next to a letter and stands for one.
func within(text string, i, size int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	after, _ := utf8.DecodeRuneInString(text[i+size:])
	return unicode.IsLetter(after) || unicode.IsLetter(before) && after != utf8.RuneError && sounds[after] != 0
}

// plain returns the Latin letter that a letter resembles: full-width, Cyrillic
// and Greek letters, and Latin letters with accents.
func plain(r rune) rune {
	switch {
	case r >= 'ａ' && r <= 'ｚ':
		return r - 'ａ' + 'a'
	case r < 0x80:
		return r
	}
	const look, like = "аеорсухіјѕԁɡοαεικνρτυàáâãäåçèéêëìíîïñòóôõöùúûüýÿ", "aeopcyxijsdgoaeiknptuaaaaaaceeeeiiiinooooouuuuyy"
	n := 0
	for _, c := range look {
		if c == r {
			return rune(like[n])
		}
		n++
	}
	return r
}

// finding returns a match unless it is part of a word.
func (h *normalized) finding(m *aho.Match, kind string) (finding, bool) {
	at, end := int(m.Pos()), int(m.Pos())+len(m.Match())
	if at > 0 && h.text[at-1] != ' ' || end < len(h.text) && h.text[end] != ' ' {
		return finding{}, false
	}
	from, to := h.from[at], h.to[end-1]
	return finding{kind, h.source[from:to], from, to}, true
}
