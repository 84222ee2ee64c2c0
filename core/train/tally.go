package train

import (
	"maps"
	"slices"
)

// Tally counts answers by the kind of question.
type Tally map[string]*count

type count struct {
	right, n int
	answers  map[string]int // how often each is right
}

// Add counts one answer to a question of a kind, to which answer is the right one.
func (t Tally) Add(kind, answer string, right bool) {
	c := t[kind]
	if c == nil {
		c = &count{answers: map[string]int{}}
		t[kind] = c
	}
	c.n++
	c.answers[answer]++
	if right {
		c.right++
	}
}

// Scores are the counts in the order of their kinds.
func (t Tally) Scores() []Score {
	var out []Score
	for _, k := range slices.Sorted(maps.Keys(t)) {
		c := t[k]
		most := 0
		for _, n := range c.answers {
			most = max(most, n)
		}
		out = append(out, Score{Kind: k, Right: c.right, N: c.n, Chance: float64(most) / float64(c.n)})
	}
	return out
}
