package speech_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/runtimes/speech"
)

func TestSentences(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                       nil,
		"  \n\n ":                                nil,
		"One":                                    {"One"},
		"Dr. Smith paid $5.20! Why?  He did.":    {"Dr. Smith paid $5.20!", "Why?", "He did."},
		"He said \"Go.\" (Then he went.) J. Doe": {"He said \"Go.\"", "(Then he went.)", "J. Doe"},
		"a line\nof two\n\nanother":              {"a line of two", "another"},
		"今日は。元気？はい":                              {"今日は。", "元気？", "はい"},
		"wait… now":                              {"wait…", "now"},
	} {
		if d := cmp.Diff(want, speech.Sentences(text)); d != "" {
			t.Errorf("%q (-want +got):\n%s", text, d)
		}
	}
}

func TestSpans(t *testing.T) {
	for text, want := range map[string][]string{
		"Hello, world!":        {"Hello", ",", " world", "!"},
		"Dr. Smith's 5.20":     {"Dr. Smith's 5.20"},
		"(a) “b”; c":           {"(", "a", ")", " ", "“", "b", "”", ";", " c"},
		"mid-word, e.g. this.": {"mid-word", ",", " e.g. this", "."},
	} {
		if d := cmp.Diff(want, speech.Spans(text)); d != "" {
			t.Errorf("%q (-want +got):\n%s", text, d)
		}
	}
}

func TestPieces(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  []string
	}{
		{"abc", 3, []string{"abc"}},
		{"abcd", 3, []string{"abc", "d"}},
		{"a b.cd,efgh", 6, []string{"a b.", "cd,", "efgh"}},
		{"ab cdefg", 5, []string{"ab ", "cdefg"}},
		{"abcde f", 5, []string{"abcde", "f"}},
		{"", 5, nil},
	} {
		var got []string
		for _, p := range speech.Pieces(strings.Split(c.text, ""), c.limit) {
			got = append(got, strings.Join(p, ""))
		}
		if c.text == "" {
			got = nil
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%q in %d (-want +got):\n%s", c.text, c.limit, d)
		}
	}
}

// The phonemes are those of espeak-ng 1.51; the results are those of EspeakFallback
// and EspeakG2P of misaki 0.9.4 on them, except for the British e^ə.
func TestKokoro(t *testing.T) {
	for _, c := range []struct{ language, in, want string }{
		{"en-us", "ðə d^ʒˈɔ^ɪ ʌv t^ʃˈæɾɪŋ ɐbˌa^ʊt bˈo^ʊts", "ðə ʤˈY ʌv ʧˈæTɪŋ əbˌWt bˈOts"},
		{"en-us", "hˈa^ʊzᵻz ænd pˈe^ɪd^ʒᵻz", "hˈWzᵻz ænd pˈAʤᵻz"},
		{"en-us", "wˈɜːld bˈʌʔn\u0329 lˈɪɾə^l fˈɪɹɚ", "wˈɜɹld bˈʌtn lˈɪTᵊl fˈɪɹəɹ"},
		{"en-gb", "hˈe^ə ɡˈə^ʊ nˈiə bˈɜːd", "hˈɛː ɡˈQ nˈɪə bˈɜːd"},
		{"es", "bwˈenoz dˈi-as t^ʃˈe^ɪ", "bwˈenoz dˈias ʧˈA"},
	} {
		if got := speech.Kokoro(c.in, c.language); got != c.want {
			t.Errorf("%s %q: got %q, want %q", c.language, c.in, got, c.want)
		}
	}
}
