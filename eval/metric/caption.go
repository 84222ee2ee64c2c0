package metric

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// rougeWords splits a text as rouge_score does: lower-case ASCII letters and digits.
func rougeWords(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
}

// longestCommon returns the length of the longest common subsequence.
func longestCommon(a, b []string) int {
	row := make([]int, len(b)+1)
	for _, x := range a {
		before := 0
		for j, y := range b {
			here := row[j+1]
			if x == y {
				row[j+1] = before + 1
			} else {
				row[j+1] = max(row[j+1], row[j])
			}
			before = here
		}
	}
	return row[len(b)]
}

// f1 returns the harmonic mean of the shares of two totals.
func f1(same, got, want int) float64 {
	if same == 0 || got == 0 || want == 0 {
		return 0
	}
	p, r := float64(same)/float64(got), float64(same)/float64(want)
	return 2 * p * r / (p + r)
}

// RougeL returns the largest F1 of the longest common subsequence with a reference (Lin,
// ACL 2004), without stemming.
func RougeL(hypothesis string, references []string) float64 {
	got, best := rougeWords(hypothesis), 0.0
	for _, r := range references {
		want := rougeWords(r)
		best = max(best, f1(longestCommon(want, got), len(got), len(want)))
	}
	return best
}

// RougeN returns the largest F1 of n-grams with a reference.
func RougeN(hypothesis string, references []string, n int) float64 {
	got, best := grams(rougeWords(hypothesis), n), 0.0
	for _, r := range references {
		same, all, total := 0, 0, 0
		want := grams(rougeWords(r), n)
		for g, c := range got {
			same, all = same+min(c, want[g]), all+c
		}
		for _, c := range want {
			total += c
		}
		best = max(best, f1(same, all, total))
	}
	return best
}

// captionBeta is the weight of recall in the ROUGE-L of captions.
const captionBeta = 1.2

// CaptionRougeL returns ROUGE-L as captions are scored: of words between spaces, by the
// largest precision and the largest recall over the references.
func CaptionRougeL(hypothesis string, references []string) float64 {
	got, p, r := strings.Split(hypothesis, " "), 0.0, 0.0
	for _, ref := range references {
		want := strings.Split(ref, " ")
		same := float64(longestCommon(want, got))
		p, r = max(p, same/float64(len(got))), max(r, same/float64(len(want)))
	}
	if p == 0 || r == 0 {
		return 0
	}
	const square = captionBeta * captionBeta
	return (1 + square) * p * r / (r + square*p)
}

// Caption is a caption with its references, in words separated by spaces.
type Caption struct {
	Text       string
	References []string
}

const (
	ciderOrder = 4
	ciderSigma = 6.0 // of the penalty for a difference of lengths
)

// CIDEr returns CIDEr-D for each caption of a corpus, 0 to 10: document frequencies are
// those of the references (Vedantam et al., arXiv 1411.5726).
func CIDEr(all []Caption) []float64 {
	frequency := map[string]float64{}
	for _, c := range all {
		seen := map[string]bool{}
		for _, r := range c.References {
			for _, counts := range captionGrams(r) {
				for g := range counts {
					seen[g] = true
				}
			}
		}
		for g := range seen {
			frequency[g]++
		}
	}
	weigh := ciderWeights{frequency, math.Log(float64(len(all)))}
	out := make([]float64, len(all))
	for i, c := range all {
		got := weigh.vector(c.Text)
		for _, r := range c.References {
			out[i] += got.similarity(weigh.vector(r))
		}
		if len(c.References) > 0 {
			out[i] *= 10 / float64(ciderOrder*len(c.References))
		}
	}
	return out
}

func captionGrams(text string) (out [ciderOrder]map[string]int) {
	words := fields(text)
	for n := range out {
		out[n] = grams(words, n+1)
	}
	return out
}

type ciderWeights struct {
	frequency map[string]float64
	images    float64 // their logarithm
}

// ciderVector holds the weights of the n-grams of a text.
type ciderVector struct {
	weights [ciderOrder]map[string]float64
	norms   [ciderOrder]float64
	length  float64 // in bigrams
}

func (w ciderWeights) vector(text string) (v ciderVector) {
	for n, counts := range captionGrams(text) {
		v.weights[n] = map[string]float64{}
		for _, g := range slices.Sorted(maps.Keys(counts)) { // sums depend on the order
			c := counts[g]
			x := float64(c) * (w.images - math.Log(max(1, w.frequency[g])))
			v.weights[n][g] = x
			v.norms[n] += x * x
			if n == 1 {
				v.length += float64(c)
			}
		}
		v.norms[n] = math.Sqrt(v.norms[n])
	}
	return v
}

// similarity returns the sum over the orders of the clipped cosines.
func (v ciderVector) similarity(ref ciderVector) float64 {
	d, sum := v.length-ref.length, 0.0
	for n := range v.weights {
		dot := 0.0
		for _, g := range slices.Sorted(maps.Keys(v.weights[n])) {
			x := v.weights[n][g]
			dot += min(x, ref.weights[n][g]) * ref.weights[n][g]
		}
		if norm := v.norms[n] * ref.norms[n]; norm != 0 {
			dot /= norm
		}
		sum += dot * math.Exp(-d*d/(2*ciderSigma*ciderSigma))
	}
	return sum
}
