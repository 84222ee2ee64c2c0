package tokenizer

import (
	"strings"
	"unicode"

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
	case "StripAccents":
		return func(s string) string {
			return strings.Map(func(r rune) rune {
				if unicode.Is(unicode.M, r) {
					return -1
				}
				return r
			}, s)
		}
	}
	return nil
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
