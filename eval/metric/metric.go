// Package metric holds the measures of evaluations, each a small function that equals a
// published implementation (scripts/metrics.py writes the cases of testdata), and the
// statistics that belong to a figure: intervals and paired comparisons.
//
// A measure of a whole corpus is a function of a sum: each item adds a few numbers, such
// as its errors and its words ([WER]), and the value is a function of their sum. So a
// bootstrap sums the numbers of the drawn items and reads no text again.
package metric

import (
	"math"
	"slices"
	"strings"
	"unicode"
)

// Mean returns the first sum over the number of items.
func Mean(sum []float64, n int) float64 { return sum[0] / float64(n) }

// Ratio returns the first sum over the second one.
func Ratio(sum []float64, _ int) float64 { return sum[0] / sum[1] }

// Perplexity returns exp(-mean) of log likelihoods.
func Perplexity(sum []float64, n int) float64 { return math.Exp(-Mean(sum, n)) }

// WeightedPerplexity returns exp(-Σ log likelihood / Σ units), such as words or bytes.
func WeightedPerplexity(sum []float64, _ int) float64 { return math.Exp(-sum[0] / sum[1]) }

// BitsPerByte returns the bits that a text takes for each byte.
func BitsPerByte(sum []float64, _ int) float64 { return -sum[0] / sum[1] / math.Ln2 }

// Words counts the words of a text as lm-evaluation-harness does: the parts between
// runs of white space, empty ones at the ends included.
func Words(text string) int {
	n, within := 1, false
	for _, r := range text {
		space := pySpace(r)
		if space && !within {
			n++
		}
		within = space
	}
	return n
}

// Best returns the index of the largest number, the first of equal ones.
func Best(numbers []float64) int {
	best := 0
	for i, x := range numbers {
		if x > numbers[best] {
			best = i
		}
	}
	return best
}

// Per returns each number over the unit of the same index.
func Per(numbers []float64, units []int) []float64 {
	out := make([]float64, len(numbers))
	for i, x := range numbers {
		out[i] = x / float64(units[i])
	}
	return out
}

// Brier returns the squared distance of the softmax of log likelihoods from the gold
// choice.
func Brier(logs []float64, gold int) float64 {
	most, total := slices.Max(logs), 0.0
	for _, x := range logs {
		total += math.Exp(x - most)
	}
	sum := 0.0
	for i, x := range logs {
		d := math.Exp(x-most) / total
		if i == gold {
			d--
		}
		sum += d * d
	}
	return sum
}

// pySpace reports whether Python's str.split splits at a character.
func pySpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// fields splits a text at white space as Python's str.split does.
func fields(text string) []string { return strings.FieldsFunc(text, pySpace) }

// Fields splits a text at white space, for captions.
func Fields(text string) []string { return fields(text) }

// strip removes white space as Python's str.strip does.
func strip(text string) string { return strings.TrimFunc(text, pySpace) }

// number returns 1 for true.
func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// distance returns the Levenshtein distance of two sequences.
func distance[T comparable](a, b []T) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		before := row[0]
		row[0] = i + 1
		for j, y := range b {
			change := before
			if x != y {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, before+1, row[j]+1)
		}
	}
	return row[len(b)]
}
