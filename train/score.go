package train

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Score counts the exactly right answers to one kind of question.
type Score struct {
	Kind  string `json:"kind"`
	Right int    `json:"right"`
	N     int    `json:"n"`
	// Chance is the accuracy without the input: the share of the most frequent
	// right answer.
	Chance float64 `json:"chance"`
}

// Accuracy returns the share of right answers, 0 if N is 0.
func (s Score) Accuracy() float64 {
	if s.N == 0 {
		return 0
	}
	return float64(s.Right) / float64(s.N)
}

// Interval returns the 95 % interval of the accuracy (Wilson, J. Am. Stat.
// Assoc. 22, 1927), 0 to 1 if N is 0.
func (s Score) Interval() (low, high float64) {
	if s.N == 0 {
		return 0, 1
	}
	const z = 1.959963984540054
	n, p := float64(s.N), s.Accuracy()
	mid, half := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max((mid-half)/(1+z*z/n), 0), min((mid+half)/(1+z*z/n), 1)
}

// Tally counts answers by the kind of question. Create it with make.
type Tally map[string]*count

type count struct {
	right, n int
	answers  map[string]int // how often each is right
}

// Add counts an answer to a question with the right answer.
func (t Tally) Add(kind, right string, correct bool) {
	c := t[kind]
	if c == nil {
		c = &count{answers: map[string]int{}}
		t[kind] = c
	}
	c.n++
	c.answers[right]++
	if correct {
		c.right++
	}
}

// Scores returns the counts in the order of their kinds.
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

// Change counts how the answers to the same questions change from one model to
// another.
type Change struct {
	Kind   string `json:"kind"`
	N      int    `json:"n"`
	Before int    `json:"before"` // right answers
	After  int    `json:"after"`
	Gained int    `json:"gained"` // right only after
	Lost   int    `json:"lost"`   // right only before
}

// Add counts a question.
func (c *Change) Add(before, after bool) {
	c.N++
	if before {
		c.Before++
	}
	if after {
		c.After++
	}
	switch {
	case after && !before:
		c.Gained++
	case before && !after:
		c.Lost++
	}
}

// Difference returns the change of the accuracy.
func (c Change) Difference() float64 {
	if c.N == 0 {
		return 0
	}
	return float64(c.Gained-c.Lost) / float64(c.N)
}

// Interval returns the 95 % interval of the change of the accuracy on paired
// questions (Bonett and Price, J. Educ. Behav. Stat. 37, 2012), -1 to 1 if N is
// 0.
func (c Change) Interval() (low, high float64) {
	if c.N == 0 {
		return -1, 1
	}
	const z = 1.959963984540054
	n := float64(c.N + 2)
	gained, lost := float64(c.Gained+1)/n, float64(c.Lost+1)/n
	mid := gained - lost
	half := z * math.Sqrt((gained+lost-mid*mid)/n)
	return max(mid-half, -1), min(mid+half, 1)
}

// ScoreHeading names the columns of Score.Row after the kind.
func ScoreHeading() []string { return []string{"RIGHT", "95 % INTERVAL", "N", "CHANCE"} }

// Row returns the score as a row of a table.
func (s Score) Row() []string {
	low, high := s.Interval()
	return []string{s.Kind, fmt.Sprintf("%.1f%%", 100*s.Accuracy()), fmt.Sprintf("%.1f–%.1f%%", 100*low, 100*high), fmt.Sprint(s.N), fmt.Sprintf("%.1f%%", 100*s.Chance)}
}

// ChangeHeading names the columns of Change.Row.
func ChangeHeading() []string {
	return []string{"ASKED FOR", "BEFORE", "AFTER", "CHANGE", "95 % INTERVAL", "N"}
}

// Row returns the change as a row of a table.
func (c Change) Row() []string {
	low, high := c.Interval()
	share := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(c.N)) }
	return []string{c.Kind, share(c.Before), share(c.After), fmt.Sprintf("%+.1f points", 100*c.Difference()), fmt.Sprintf("%+.1f to %+.1f", 100*low, 100*high), fmt.Sprint(c.N)}
}
