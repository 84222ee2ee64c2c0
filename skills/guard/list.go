package guard

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

// list reads the embedded list: the kind of each entry and its words as they
// are heard.
func list() (kinds, words []string, err error) {
	for i, line := range strings.Split(blocklist, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		kind, entry, ok := strings.Cut(line, "\t")
		h := string(hear(entry).heard)
		if !ok || kind == "" || strings.TrimSpace(h) == "" {
			return nil, nil, fmt.Errorf("line %d of the list of words has no kind and words", i+1)
		}
		kinds, words = append(kinds, kind), append(words, h)
	}
	return kinds, words, nil
}

// hearing is a text as it is heard, and where each byte of that stood.
type hearing struct {
	text  string
	heard []byte
	from  []int // of a byte of heard: where its character begins
	to    []int // and ends
}

// sounds are signs that stand for letters.
var sounds = map[rune]rune{'0': 'o', '1': 'i', '3': 'e', '4': 'a', '5': 's', '7': 't', '@': 'a', '$': 's', '!': 'i', '|': 'i'}

// hear writes a text small, without accents of its own, signs as the letters
// they stand for within words, one space between words, nothing invisible.
func hear(text string) hearing {
	h := hearing{text: text}
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
			h.heard = append(h.heard, b)
			h.from, h.to = append(h.from, i), append(h.to, i+size)
		}
	}
	return h
}

// within says whether a sign has a letter at a side: then it is one itself.
func within(text string, i, size int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	after, _ := utf8.DecodeRuneInString(text[i+size:])
	return unicode.IsLetter(after) || unicode.IsLetter(before) && after != utf8.RuneError && sounds[after] != 0
}

// plain is the Latin letter that a letter looks like: full-width, Cyrillic and
// Greek ones that are drawn alike, and Latin ones with accents.
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

// finding is a match of whole words.
func (h *hearing) finding(m *aho.Match, kind string) (Finding, bool) {
	at, end := int(m.Pos()), int(m.Pos())+len(m.Match())
	if at > 0 && h.heard[at-1] != ' ' || end < len(h.heard) && h.heard[end] != ' ' {
		return Finding{}, false
	}
	from, to := h.from[at], h.to[end-1]
	return Finding{kind, h.text[from:to], from, to}, true
}
