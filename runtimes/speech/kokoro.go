package speech

import (
	"regexp"
	"strings"
	"sync"
)

// tie joins the letters of one sound in the output of espeak-ng.
const tie = "^"

// kokoroEnglish and kokoroOther convert espeak-ng's phonemes to those that Kokoro was
// trained with, in this order: the tables EspeakFallback and EspeakG2P of misaki
// 0.9.4. The British pairs come first, so that the e of e^ə is not replaced alone.
var (
	kokoroEnglish = []string{
		"ʔˌn\u0329", "ʔn", "ʔn\u0329", "ʔn",
		"a^ɪ", "I", "a^ʊ", "W", "d^ʒ", "ʤ", "e^ɪ", "A", "t^ʃ", "ʧ", "ɔ^ɪ", "Y", "ə^l", "ᵊl",
		"ʲo", "jo", "ʲə", "jə",
		"e", "A", "ʲ", "", "ɚ", "əɹ", "r", "ɹ", "x", "k", "ç", "k", "ɐ", "ə", "ɬ", "l", "\u0303", "",
	}
	kokoroBritish = []string{"e^ə", "ɛː", "iə", "ɪə", "ə^ʊ", "Q"}
	kokoroUS      = []string{"o^ʊ", "O", "ɜːɹ", "ɜɹ", "ɜː", "ɜɹ", "ɪə", "iə", "ː", ""}
	kokoroLast    = []string{"o", "ɔ", "ɾ", "T", "ʔ", "t", tie, ""}
	kokoroOther   = []string{
		"a^ɪ", "I", "a^ʊ", "W", "d^z", "ʣ", "d^ʒ", "ʤ", "e^ɪ", "A", "o^ʊ", "O", "s^s", "S", "t^s", "ʦ", "t^ʃ", "ʧ",
		"ɔ^ɪ", "Y", "ə^ʊ", "Q", tie, "", "-", "",
	}
	syllabic = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(\S)\x{0329}`) })
)

// kokoro converts phonemes of espeak-ng, with ties, to Kokoro's alphabet.
func kokoro(phonemes, language string) string {
	if language != "en" && !strings.HasPrefix(language, "en-") {
		return replace(phonemes, kokoroOther)
	}
	british := strings.HasPrefix(language, "en-gb")
	if british {
		phonemes = replace(phonemes, kokoroBritish)
	}
	phonemes = replace(phonemes, kokoroEnglish)
	phonemes = strings.ReplaceAll(syllabic().ReplaceAllString(phonemes, "ᵊ$1"), "\u0329", "")
	if !british {
		phonemes = replace(phonemes, kokoroUS)
	}
	return replace(phonemes, kokoroLast)
}

// replace applies pairs of old and new one after the other.
func replace(text string, pairs []string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}
