package metric

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// bleuOrder is the length of the longest n-grams of BLEU.
const bleuOrder = 4

// patterns13a are the rules of mteval-v13a, in order.
var patterns13a = sync.OnceValue(func() []*regexp.Regexp {
	var out []*regexp.Regexp
	for _, p := range []string{"([{-~\\[-\x60 -&(-+:-@/])", `([^0-9])([.,])`, `([.,])([^0-9])`, `([0-9])(-)`} {
		out = append(out, regexp.MustCompile(p))
	}
	return out
})

// tokens13a splits a text as mteval-v13a does.
func tokens13a(text string) []string {
	text = strings.TrimRightFunc(text, pySpace)
	text = strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(text, "<skipped>", ""), "-\n", ""), "\n", " ")
	for _, p := range [][2]string{{"&quot;", `"`}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}} {
		text = strings.ReplaceAll(text, p[0], p[1])
	}
	text = " " + text + " "
	for i, with := range []string{" $1 ", "$1 $2 ", " $1 $2", "$1 $2 "} {
		text = patterns13a()[i].ReplaceAllString(text, with)
	}
	return fields(text)
}

// grams counts the n-grams of words.
func grams(words []string, n int) map[string]int {
	out := map[string]int{}
	for i := range len(words) - n + 1 {
		out[strings.Join(words[i:i+n], " ")]++
	}
	return out
}

// BLEUCounts returns the numbers of a sentence that [BLEU] sums: for each order the
// matches and the n-grams of the hypothesis, then the lengths of the hypothesis and of
// the closest reference. words splits a text; if nil, mteval-v13a does.
func BLEUCounts(hypothesis string, references []string, words func(string) []string) []float64 {
	if words == nil {
		words = tokens13a
	}
	got := words(hypothesis)
	var refs [][]string
	for _, r := range references {
		refs = append(refs, words(r))
	}
	out := make([]float64, 2*bleuOrder+2)
	for n := range bleuOrder {
		most := map[string]int{}
		for _, r := range refs {
			for g, c := range grams(r, n+1) {
				most[g] = max(most[g], c)
			}
		}
		for g, c := range grams(got, n+1) {
			out[2*n] += float64(min(c, most[g]))
		}
		out[2*n+1] = float64(max(0, len(got)-n))
	}
	out[2*bleuOrder], out[2*bleuOrder+1] = float64(len(got)), float64(closest(len(got), refs))
	return out
}

// closest returns the length of the reference that is closest to n, of equal ones the
// shorter.
func closest(n int, refs [][]string) int {
	best := -1
	for _, r := range refs {
		d, b := max(len(r)-n, n-len(r)), max(best-n, n-best)
		if best < 0 || d < b || d == b && len(r) < best {
			best = len(r)
		}
	}
	return max(best, 0)
}

// BLEU returns the score of a corpus, 0 to 100, with the smoothing "exp" of sacrebleu
// (Papineni et al., ACL 2002; Post, arXiv 1804.08771).
func BLEU(sum []float64, _ int) float64 { return bleu(sum, bleuOrder, true) }

// BLEUn returns the score of n-grams up to n without smoothing, from 0 to 1, as captions
// are scored.
func BLEUn(n int) func(sum []float64, _ int) float64 {
	return func(sum []float64, _ int) float64 { return bleu(sum, n, false) / 100 }
}

func bleu(sum []float64, order int, smooth bool) float64 {
	length, reference := sum[2*bleuOrder], sum[2*bleuOrder+1]
	if length == 0 {
		return 0
	}
	logs, zeros, any := 0.0, 1.0, false
	for n := range order {
		match, total := sum[2*n], sum[2*n+1]
		any = any || match > 0
		switch {
		case total == 0:
			return 0
		case match > 0:
			logs += math.Log(100 * match / total)
		case smooth:
			zeros *= 2
			logs += math.Log(100 / (zeros * total))
		default:
			return 0
		}
	}
	if !any {
		return 0
	}
	short := 1.0
	if length < reference {
		short = math.Exp(1 - reference/length)
	}
	return short * math.Exp(logs/float64(order))
}

// chrOrder is the length of the longest n-grams of chrF.
const chrOrder = 6

// ChrFCounts returns the numbers of a sentence that [ChrF] sums: for each order the
// n-grams of the hypothesis and of the best reference, and the matches. wordOrder is 0,
// or 2 for chrF++.
func ChrFCounts(hypothesis string, references []string, wordOrder int) []float64 {
	got := chrGrams(hypothesis, wordOrder)
	var best []float64
	score := -1.0
	for _, r := range references {
		sums := make([]float64, 3*len(got))
		for i, want := range chrGrams(r, wordOrder) {
			for g, c := range got[i] {
				if len(want) > 0 {
					sums[3*i] += float64(c)
				}
				sums[3*i+2] += float64(min(c, want[g]))
			}
			for _, c := range want {
				sums[3*i+1] += float64(c)
			}
		}
		if s := ChrF(sums, 1); s > score {
			score, best = s, sums
		}
	}
	if best == nil {
		best = make([]float64, 3*len(got))
	}
	return best
}

// chrGrams counts the n-grams of characters, without white space, and of words.
func chrGrams(text string, wordOrder int) []map[string]int {
	words := fields(text)
	chars := strings.Split(strings.Join(words, ""), "")
	var out []map[string]int
	for n := range chrOrder {
		counts := map[string]int{}
		for i := range len(chars) - n {
			counts[strings.Join(chars[i:i+n+1], "")]++
		}
		out = append(out, counts)
	}
	var split []string
	for _, w := range words {
		split = append(split, splitPunctuation(w)...)
	}
	for n := range wordOrder {
		out = append(out, grams(split, n+1))
	}
	return out
}

// splitPunctuation splits one mark off a word, at its end or else at its start.
func splitPunctuation(word string) []string {
	r := []rune(word)
	switch {
	case len(r) == 1:
	case strings.ContainsRune(asciiPunctuation, r[len(r)-1]):
		return []string{string(r[:len(r)-1]), string(r[len(r)-1])}
	case strings.ContainsRune(asciiPunctuation, r[0]):
		return []string{string(r[0]), string(r[1:])}
	}
	return []string{word}
}

// chrBeta is the weight of recall.
const chrBeta = 2

// ChrF returns the score of a corpus, 0 to 100 (Popović, WMT 2015).
func ChrF(sum []float64, _ int) float64 {
	precision, recall, orders := 0.0, 0.0, 0.0
	for s := range slices.Chunk(sum, 3) {
		if s[0] > 0 && s[1] > 0 {
			precision, recall, orders = precision+s[2]/s[0], recall+s[2]/s[1], orders+1
		}
	}
	if orders == 0 || precision+recall == 0 {
		return 0
	}
	precision, recall = precision/orders, recall/orders
	return 100 * (1 + chrBeta*chrBeta) * precision * recall / (chrBeta*chrBeta*precision + recall)
}
