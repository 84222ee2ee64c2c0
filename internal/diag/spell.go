package diag

import "strings"

// maxWord is the maximum length of the compared words in bytes.
const maxWord = 64

// Nearest returns the known word nearest to got, ignoring case, if it is near enough: one
// edit in a word of up to three letters, two in a longer one. Of equally near words it
// returns the first.
func Nearest(got string, words []string) (string, bool) {
	best, least := "", 2+min(1, len(got)/4)
	for _, k := range words {
		if d := distance(strings.ToLower(got), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best, best != "" && best != got
}

// Suggest returns the hint for an unknown word: the nearest known one, or otherwise a hint.
func Suggest(got string, words []string, otherwise string) string {
	if near, ok := Nearest(got, words); ok {
		return "did you mean " + near + "?"
	}
	return otherwise
}

// distance counts the edits between a and b, or returns 99 if there are too many.
func distance(a, b string) int {
	if len(a) > maxWord || len(b) > maxWord || max(len(a), len(b))-min(len(a), len(b)) > 3 {
		return 99
	}
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := row[j]
			if a[i] != b[j] {
				cost = min(cost, row[j+1], next[j]) + 1
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				cost = min(cost, before[j-1]+1)
			}
			next[j+1] = cost
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
