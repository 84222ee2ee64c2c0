package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
)

// normalizerOf returns a normalizer by its name in tokenizer.json, or nil.
func normalizerOf(name string) func(string) string {
	switch name {
	case "NFC":
		return norm.NFC.String
	case "NFD":
		return norm.NFD.String
	case "NFKC":
		return norm.NFKC.String
	case "NFKD":
		return norm.NFKD.String
	case "Lowercase":
		return lowercase
	case "LowercaseSigma":
		return cases.Lower(language.Und, cases.HandleFinalSigma(true)).String
	case "Punctuation":
		return func(s string) string {
			return strings.Map(func(r rune) rune {
				if r < utf8.RuneSelf && strings.ContainsRune(punctuation, r) {
					return -1
				}
				return r
			}, s)
		}
	case "WhiteSpace":
		return oneBlank
	case charsmapStep:
		return func(s string) string { return s } // built from the table
	case "Nmt":
		return nmt
	case "BertClean":
		return bertClean
	case "BertHan":
		return bertHan
	case "BertAccents":
		return bertAccents
	case "Quotes":
		return func(s string) string { return strings.ReplaceAll(strings.ReplaceAll(s, "``", `"`), "''", `"`) }
	case "Spaces":
		return oneSpace
	case "Strip":
		return strings.TrimSpace
	case "StripLeft":
		return func(s string) string { return strings.TrimLeftFunc(s, unicode.IsSpace) }
	case "StripRight":
		return func(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) }
	case "StripAccents":
		return func(s string) string {
			return strings.Map(func(r rune) rune {
				if unicode.Is(unicode.M, r) && !differs(r, olderAccents) {
					return -1
				}
				return r
			}, s)
		}
	}
	return nil
}

// charsmapStep is the step of a [Vocabulary].Charsmap.
const charsmapStep = "Precompiled"

// punctuation is that of ASCII.
const punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

// oneBlank replaces white space, which includes the separators U+001C to U+001F, by one
// space.
func oneBlank(s string) string {
	var b strings.Builder
	blank := false
	for _, r := range s {
		if r >= 0x1c && r <= 0x1f || unicode.IsSpace(r) {
			if !blank {
				b.WriteByte(' ')
			}
			blank = true
			continue
		}
		b.WriteRune(r)
		blank = false
	}
	return b.String()
}

// oneSpace replaces two or more spaces by one.
func oneSpace(s string) string {
	if !strings.Contains(s, "  ") {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if s[i] != ' ' || i == 0 || s[i-1] != ' ' {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// lowercase maps each character by itself: a final sigma is not recognized.
func lowercase(s string) string {
	const dotted = "\u0130" // the only character with a mapping to two
	return strings.ReplaceAll(strings.Map(func(r rune) rune {
		if r == 0x130 {
			return r
		}
		return unicode.ToLower(r)
	}, s), dotted, "i\u0307")
}

// normalForm applies the vocabulary's normalizer.
func (t *Tokenizer) normalForm(text string) string {
	for _, f := range t.normalize {
		text = f(text)
	}
	return text
}

// normalized returns text as special tokens are found in it that are Normalized.
func (t *Tokenizer) normalized(text string) string {
	text = t.normalForm(text)
	if t.vocab.MarksFirst {
		text = t.spaced(text, true)
	}
	return text
}
