package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// pieceMark begins a token of WordPiece that continues a word.
const pieceMark = "##"

// wordPiece splits text into words and signs, and each word into the longest
// tokens from its start on.
type wordPiece struct {
	words   *lexicon
	unknown int32
	longest int // characters of a word; a longer one is unknown
	piece   int // bytes of the longest token
}

func newWordPiece(words *lexicon, unknown int32, longest int) *wordPiece {
	w := &wordPiece{words: words, unknown: unknown, longest: longest}
	for id := range int32(words.size()) {
		w.piece = max(w.piece, len(words.text(id)))
	}
	return w
}

// encode appends the tokens of a text.
func (w *wordPiece) encode(dst []int32, text string, s *scratch) []int32 {
	from := 0
	flush := func(to int) {
		if from < to {
			dst = s.cached(dst, text[from:to], w.word)
		}
	}
	for i, r := range text {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError { // of invalid bytes too
			_, size = utf8.DecodeRuneInString(text[i:])
		}
		switch {
		case unicode.IsSpace(r):
			flush(i)
			from = i + size
		case isBertSign(r):
			flush(i)
			from = i
			flush(i + size)
			from = i + size
		}
	}
	flush(len(text))
	return dst
}

// word appends the tokens of a word, or the unknown token.
func (w *wordPiece) word(dst []int32, word string, _ *scratch) []int32 {
	from := len(dst)
	if utf8.RuneCountInString(word) > w.longest {
		return w.none(dst)
	}
	var buf [128]byte
	for at := 0; at < len(word); {
		rest := word[at:min(len(word), at+w.piece)]
		id, n := None, len(rest)
		for ; n > 0; n-- {
			if at+n < len(word) && !utf8.RuneStart(word[at+n]) {
				continue
			}
			piece := rest[:n]
			if at > 0 {
				piece = string(append(append(buf[:0], pieceMark...), piece...))
			}
			if found, ok := w.words.findPiece(piece); ok {
				id = found
				break
			}
		}
		if id == None {
			return w.none(dst[:from])
		}
		dst = append(dst, id)
		at += n
	}
	return dst
}

func (w *wordPiece) none(dst []int32) []int32 {
	if w.unknown == None {
		return dst
	}
	return append(dst, w.unknown)
}

// isBertSign reports whether a character is a word by itself.
func isBertSign(r rune) bool {
	if r < utf8.RuneSelf {
		return r > ' ' && r < 0x7f && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z')
	}
	return unicode.IsPunct(r) != differs(r, olderSigns)
}

// bertClean removes control characters and writes white space as spaces.
func bertClean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= ' ' && r < 0x7f:
			return r
		case unicode.IsSpace(r) && r != 0x0b && r != 0x0c && r != 0x85:
			return ' '
		case r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) && !differs(r, olderFormats):
			return -1
		}
		return r
	}, s)
}

// bertHan puts spaces around the ideographs of Chinese.
func bertHan(s string) string {
	if strings.IndexFunc(s, isBertHan) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isBertHan(r) {
			b.WriteString(" " + string(r) + " ")
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isBertHan(r rune) bool {
	return r >= 0x3400 && (r <= 0x4dbf || r >= 0x4e00 && r <= 0x9fff || r >= 0xf900 && r <= 0xfaff || r >= 0x20000 && r <= 0x2a6df ||
		r >= 0x2a700 && r <= 0x2b81f || r >= 0x2b920 && r <= 0x2ceaf || r >= 0x2f800 && r <= 0x2fa1f)
}

// bertAccents removes the marks of decomposed characters.
func bertAccents(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x300 && unicode.Is(unicode.Mn, r) && !differs(r, olderMarks) {
			return -1
		}
		return r
	}, norm.NFD.String(s))
}
