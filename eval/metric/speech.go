package metric

import "strings"

// WER returns the errors in words of a transcript, and the words of the reference. The
// rate of a corpus is the ratio of the sums.
func WER(reference, hypothesis string) (errors, words int) {
	want, got := fields(reference), fields(hypothesis)
	return distance(want, got), len(want)
}

// CER returns the errors in characters of a transcript, and the characters of the
// reference. Spaces count, except those at the ends.
func CER(reference, hypothesis string) (errors, characters int) {
	want, got := []rune(strip(reference)), []rune(strip(hypothesis))
	return distance(want, got), len(want)
}

// Rate returns errors over the length of the references; of empty ones, one for each
// error.
func Rate(sum []float64, _ int) float64 {
	if sum[1] == 0 {
		return sum[0]
	}
	return sum[0] / sum[1]
}

// Transcript returns a text in lower case without ASCII punctuation except apostrophes, as
// transcripts are compared if case and punctuation are not measured.
func Transcript(text string) string {
	return strings.Join(fields(without(strings.ToLower(text), strings.ReplaceAll(asciiPunctuation, "'", ""))), " ")
}
