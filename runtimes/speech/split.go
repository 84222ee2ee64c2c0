package speech

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	stops = ".!?…。！？"                    // end a sentence
	marks = stops + ",;:—“”\"()«»¡¿、，；：" // become pauses or intonation
)

// wideMarks replaces marks that voices do not have.
var wideMarks = strings.NewReplacer("。", ".", "！", "!", "？", "?", "、", ",", "，", ",", "；", ";", "：", ":", "«", "“", "»", "”")

// abbreviations end in a stop that ends no sentence.
var abbreviations = []string{"dr", "mr", "mrs", "ms", "prof", "st", "vs", "etc", "e.g", "i.e", "no", "jr", "sr", "z.b", "bzw"}

// Sentences divides a text at the ends of sentences and at empty lines. Each sentence
// keeps its stop; white space is one blank.
func Sentences(text string) []string {
	var out []string
	for _, paragraph := range paragraphs(text) {
		words := strings.Fields(paragraph)
		from := 0
		for i, w := range words {
			if ends(w) || i == len(words)-1 {
				out = append(out, unspaced(strings.Join(words[from:i+1], " "))...)
				from = i + 1
			}
		}
	}
	return out
}

// paragraphs divides a text at empty lines.
func paragraphs(text string) []string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Split(text, "\n\n")
}

// unspaced divides a text at stops of scripts that write no blank after them.
func unspaced(text string) (out []string) {
	for {
		i := strings.IndexAny(text, "。！？")
		if i < 0 {
			break
		}
		_, n := utf8.DecodeRuneInString(text[i:])
		out, text = append(out, strings.TrimSpace(text[:i+n])), text[i+n:]
	}
	if text = strings.TrimSpace(text); text != "" {
		out = append(out, text)
	}
	return out
}

// ends reports whether a word ends a sentence.
func ends(word string) bool {
	word = strings.TrimRight(word, "\"”’')»")
	r, _ := utf8.DecodeLastRuneInString(word)
	if !strings.ContainsRune(stops, r) {
		return false
	}
	bare := strings.ToLower(strings.TrimRight(word, "."))
	return r != '.' || !slices.Contains(abbreviations, strings.TrimLeft(bare, "(\"“")) && utf8.RuneCountInString(bare) != 1
}

// span is a part of a sentence: words, or a mark.
type span struct {
	text string
	mark bool
}

// spans divides a sentence into words and marks. A mark within a word or a number
// belongs to it.
func spans(sentence string) (out []span) {
	letters := []rune(sentence)
	var words []rune
	flush := func() {
		if strings.TrimSpace(string(words)) != "" {
			out = append(out, span{text: string(words)})
		} else if len(words) > 0 {
			out = append(out, span{text: " ", mark: true})
		}
		words = nil
	}
	for i, r := range letters {
		inside := i > 0 && i+1 < len(letters) && word(letters[i-1]) && word(letters[i+1]) && r < utf8.RuneSelf
		if !strings.ContainsRune(marks, r) || inside || short(letters[:i], r) {
			words = append(words, r)
			continue
		}
		flush()
		out = append(out, span{text: string(r), mark: true})
	}
	flush()
	return out
}

func word(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// short reports whether r is the stop of an abbreviation.
func short(before []rune, r rune) bool {
	if r != '.' {
		return false
	}
	i := len(before)
	for i > 0 && (word(before[i-1]) || before[i-1] == '.') {
		i--
	}
	return slices.Contains(abbreviations, strings.ToLower(string(before[i:])))
}

// pieces divides symbols into runs of at most limit, after a stop, otherwise after
// another mark, otherwise after a blank.
func pieces(list []string, limit int) (out [][]string) {
	for len(list) > limit {
		n := limit
		for _, set := range []string{stops, marks, " "} {
			if i := lastOf(list[:limit], set); i > 0 {
				n = i + 1
				break
			}
		}
		if out, list = append(out, list[:n]), list[n:]; len(list) > 0 && list[0] == " " {
			list = list[1:]
		}
	}
	if len(list) > 0 {
		out = append(out, list)
	}
	return out
}

// lastOf returns the last index of a symbol in set, or -1.
func lastOf(list []string, set string) int {
	for i, s := range slices.Backward(list) {
		if strings.Contains(set, s) {
			return i
		}
	}
	return -1
}
