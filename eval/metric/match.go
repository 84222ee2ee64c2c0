package metric

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// asciiPunctuation is Python's string.punctuation.
const asciiPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

// Exact configures [ExactMatch], as lm-evaluation-harness does.
type Exact struct {
	Ignore                               []*regexp.Regexp // removed from both texts, in order
	IgnoreCase                           bool
	IgnorePunctuation, IgnoreASCIIDigits bool
}

// normal returns a text without the ignored parts.
func (e Exact) normal(text string) string {
	for _, r := range e.Ignore {
		text = r.ReplaceAllString(text, "")
	}
	if e.IgnoreCase {
		text = strings.ToLower(text)
	}
	if e.IgnorePunctuation {
		text = without(text, asciiPunctuation)
	}
	if e.IgnoreASCIIDigits {
		text = without(text, "0123456789")
	}
	return strings.TrimRight(text, "\x00 \t\n\v\f\r") // numpy's strings end there
}

// without removes characters.
func without(text, cut string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(cut, r) {
			return -1
		}
		return r
	}, text)
}

// ExactMatch returns 1 if an answer equals one of the golds.
func ExactMatch(answer string, golds []string, opt Exact) float64 {
	answer = opt.normal(answer)
	return number(slices.ContainsFunc(golds, func(g string) bool { return opt.normal(g) == answer }))
}

// squadWords returns the words that SQuAD's script compares: lower case, without ASCII
// punctuation and articles.
func squadWords(text string) []string {
	words := fields(articles(without(strings.ToLower(text), asciiPunctuation)))
	return words
}

// articles replaces a, an and the, where they are words of word characters, by spaces.
func articles(text string) string {
	var b strings.Builder
	word := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.Nl, r) || unicode.Is(unicode.No, r) || r == '_'
	}
	for text != "" {
		end := strings.IndexFunc(text, word)
		if end < 0 {
			end = len(text)
		}
		b.WriteString(text[:end])
		text = text[end:]
		if end = strings.IndexFunc(text, func(r rune) bool { return !word(r) }); end < 0 {
			end = len(text)
		}
		switch w := text[:end]; w {
		case "a", "an", "the":
			b.WriteByte(' ')
		default:
			b.WriteString(w)
		}
		text = text[end:]
	}
	return b.String()
}

// SquadExact returns 1 if the normalized answer equals one of the golds.
func SquadExact(answer string, golds []string) float64 {
	words := squadWords(answer)
	return number(slices.ContainsFunc(golds, func(g string) bool { return slices.Equal(squadWords(g), words) }))
}

// SquadF1 returns the largest F1 of the words of an answer and of a gold.
func SquadF1(answer string, golds []string) float64 {
	best := 0.0
	for _, g := range golds {
		best = max(best, wordF1(squadWords(answer), squadWords(g)))
	}
	return best
}

func wordF1(got, want []string) float64 {
	if len(got) == 0 || len(want) == 0 {
		return number(len(got) == len(want))
	}
	same := 0
	for w, n := range counts(got) {
		same += min(n, counts(want)[w])
	}
	if same == 0 {
		return 0
	}
	p, r := float64(same)/float64(len(got)), float64(same)/float64(len(want))
	return 2 * p * r / (p + r)
}

func counts(words []string) map[string]int {
	out := map[string]int{}
	for _, w := range words {
		out[w]++
	}
	return out
}

// maxRelative is the relative error that ChartQA accepts.
const maxRelative = 0.05

// Relaxed returns 1 if an answer is within 5 % of a gold number, or equals the gold
// without regard to case (ChartQA, arXiv 2203.10244, §5.1). A gold of zero is compared
// as text, as in the original script.
func Relaxed(answer, gold string) float64 {
	got, isNumber := pyFloat(answer)
	want, wantNumber := pyFloat(gold)
	if !isNumber || !wantNumber || want == 0 {
		lower := strings.ToLower(gold) // of Python, which folds fewer letters than EqualFold
		return number(strings.ToLower(answer) == lower)
	}
	off := (got - want) / want
	return number(off <= maxRelative && off >= -maxRelative)
}

// pyFloat parses a number as ChartQA's script does, by Python's float: white space
// around it and underscores between digits are accepted, a percentage is a fraction.
func pyFloat(text string) (float64, bool) {
	scale := 1.0
	if strings.HasSuffix(text, "%") {
		text, scale = strings.TrimRight(text, "%"), 100
	}
	text = strings.Map(asciiDigit, strip(text))
	clean := strings.TrimLeft(text, "+-")
	if len(text)-len(clean) > 1 || strings.HasPrefix(clean, "_") || strings.HasSuffix(clean, "_") || strings.Contains(clean, "__") || strings.ContainsAny(clean, "xXpP") {
		return 0, false
	}
	for i, r := range clean {
		if r == '_' && (!digit(clean[i-1]) || !digit(clean[i+1])) {
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	if err != nil && v == 0 {
		return 0, false
	}
	return v / scale, true
}

// asciiDigit returns a decimal digit of another script as one of ASCII.
func asciiDigit(r rune) rune {
	if r < 0x80 {
		return r
	}
	for _, t := range unicode.Nd.R16 {
		if r >= rune(t.Lo) && r <= rune(t.Hi) {
			return '0' + (r-rune(t.Lo))%10
		}
	}
	return r
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// ANLS returns the largest normalized Levenshtein similarity to a gold, 0 if it is not
// above one half (Biten et al., arXiv 1905.13648).
func ANLS(answer string, golds []string) float64 {
	best := 0.0
	for _, g := range golds {
		a, b := []rune(plain(answer)), []rune(plain(g))
		far := 0.0
		if longest := max(upperLen(a), upperLen(b)); longest > 0 {
			far = float64(distance(a, b)) / float64(longest)
		}
		if far < 0.5 {
			best = max(best, 1-far)
		}
	}
	return best
}

// ANLSLoose is ANLS as lmms-eval computes it: a similarity of exactly one half counts,
// and lengths are those of the texts before they are normalized.
func ANLSLoose(answer string, golds []string) float64 {
	least := 1.0
	for i, g := range golds {
		far := 0.0
		if longest := max(upperLen([]rune(g)), upperLen([]rune(answer))); longest > 0 {
			far = float64(distance([]rune(plain(answer)), []rune(plain(g)))) / float64(longest)
		}
		if i == 0 || far < least {
			least = far
		}
	}
	if 1-least < 0.5 {
		return 0
	}
	return 1 - least
}

// upperLen returns the length of a text in upper case, whose letter ß is two.
func upperLen(text []rune) int { return len(text) + strings.Count(string(text), "ß") }

// plain returns a text in lower case with single spaces.
func plain(text string) string { return strings.Join(fields(strings.ToLower(text)), " ") }
