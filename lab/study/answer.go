package study

import (
	"cmp"
	"fmt"
	"slices"
)

// Verdict is the result of a claim.
type Verdict string

// The verdicts.
const (
	Supported    Verdict = "supported"
	Refuted      Verdict = "refuted"
	Inconclusive Verdict = "inconclusive"
)

// Answer is the answer of a study. It depends on the study and its text only: it holds no
// times.
type Answer struct {
	Study     string      `json:"study"`
	Question  string      `json:"question,omitempty"`
	Exhausted string      `json:"exhausted,omitempty"` // the budget ended before all trials
	Tokens    int         `json:"tokens"`              // of training, of all trials
	Arms      []Figure    `json:"arms"`
	Counts    []Figure    `json:"baselines"`
	Winner    *Comparison `json:"winner,omitempty"` // with the base; absent if the base itself is best
	Verdict   Verdict     `json:"verdict"`          // supported: the winner is better than the base
	Claims    []Claim     `json:"claims"`
	Law       *Law        `json:"law,omitempty"`
	Words     []string    `json:"words"` // which, why, how sure
}

// Figure is an arm with its losses, means over the seeds.
type Figure struct {
	Arm        string   `json:"arm"`
	Same       string   `json:"same,omitempty"` // arm with the same recipe, which ran instead
	Parameters int      `json:"parameters,omitempty"`
	Tokens     int      `json:"tokens,omitempty"`  // of training, of each seed
	Chosen     *float64 `json:"choose,omitempty"`  // loss on the documents of the choice, at the last rung
	Judged     *float64 `json:"judge,omitempty"`   // loss on the sealed documents
	Dropped    int      `json:"dropped,omitempty"` // rung
	Diverged   string   `json:"diverged,omitempty"`
}

// Claim is a hypothesis with its verdict.
type Claim struct {
	Hypothesis
	Verdict    Verdict     `json:"verdict"`
	Why        string      `json:"why"`
	Comparison *Comparison `json:"comparison,omitempty"`
}

// conclude computes the answer from the rows.
func conclude(s Study, at *state) Answer {
	out := Answer{Study: s.Name, Question: s.Question, Exhausted: at.exhausted, Tokens: at.tokens, Claims: []Claim{}, Counts: []Figure{}}
	for _, a := range append(slices.Clone(s.Arms), s.gridArms()...) {
		out.Arms = append(out.Arms, at.figure(s, a))
	}
	for _, order := range s.orders() {
		if r, ok := at.results[cell{order, 0, 0}]; ok {
			v := r.loss()
			out.Counts = append(out.Counts, Figure{Arm: order, Judged: &v})
		}
	}
	level := 1 - 0.05/float64(s.comparisons(at))
	out.Verdict = Inconclusive
	if p, ok := at.sides(s, at.winner, BaseArm); ok && at.winner != BaseArm {
		c := compare(p, "loss", level)
		c.Arm, c.Against = at.winner, BaseArm
		out.Winner = &c
		switch {
		case c.Interval.High < 0:
			out.Verdict = Supported
		case c.Interval.Low > 0:
			out.Verdict = Refuted
		}
	}
	for _, h := range s.Hypotheses {
		out.Claims = append(out.Claims, at.claim(s, h, level))
	}
	out.Law = fitLaw(s, at)
	out.Words = words(s, at, out)
	return out
}

// digest returns the hex SHA-256 of the answer without its words.
func (a Answer) digest() string {
	a.Words, a.Claims = nil, slices.Clone(a.Claims)
	for i := range a.Claims {
		a.Claims[i].Why = ""
	}
	return digestOf(a)
}

// comparisons returns the number of intervals, at least 1: that of the winner and those of
// the hypotheses.
func (s Study) comparisons(at *state) int {
	n := 0
	if at.winner != "" && at.winner != BaseArm {
		n++
	}
	for _, h := range s.Hypotheses {
		if h.Metric != "diverged" {
			n++
		}
	}
	return max(n, 1)
}

// figure returns the figures of an arm.
func (at *state) figure(s Study, a Arm) Figure {
	f := Figure{Arm: a.Name, Same: a.Same, Dropped: at.dropped[a.Name], Diverged: at.diverged(a.Name)}
	name := cmp.Or(a.Same, a.Name)
	f.Parameters = a.Config.WithDefaults().Model.Parameters()
	rungs := s.rungs()
	if a.Tokens > 0 {
		rungs = []int{a.Tokens}
	}
	for _, rung := range rungs {
		if v, ok := at.mean(name, s.Seeds, rung); ok {
			f.Chosen, f.Tokens = &v, at.results[cell{name, s.Seeds[0], rung}].Tokens
		}
	}
	if v, ok := at.mean(name, s.Seeds, 0); ok {
		f.Judged = &v
	}
	return f
}

// sides returns the judged results of two arms; the second may be a model of token counts.
func (at *state) sides(s Study, a, b string) (p pairs, ok bool) {
	side := func(name string) (out []Result) {
		if slices.Contains(baselines, name) {
			if r, ok := at.results[cell{name, 0, 0}]; ok {
				return []Result{r.Result}
			}
			return nil
		}
		for _, seed := range s.Seeds {
			r, ok := at.results[cell{s.real(name), seed, 0}]
			if !ok {
				return nil
			}
			out = append(out, r.Result)
		}
		return out
	}
	p = pairs{side(a), side(b)}
	return p, p.a != nil && p.b != nil && len(p.a[0].Nats) == len(p.b[0].Nats) && len(p.a[0].Nats) >= 2
}

// claim judges a hypothesis.
func (at *state) claim(s Study, h Hypothesis, level float64) Claim {
	c := Claim{Hypothesis: h, Verdict: Inconclusive}
	if h.Metric == "diverged" {
		c.Verdict, c.Why = at.divergence(s, h)
		return c
	}
	if d := at.diverged(s.real(h.Arm)); d != "" {
		c.Why = "the arm diverged: " + d
		if h.Expect.Below != nil {
			c.Verdict = Refuted
		}
		return c
	}
	p, ok := at.sides(s, h.Arm, h.Against)
	if !ok {
		c.Why = "not measured: the budget ended, or a side diverged"
		return c
	}
	d := compare(p, h.Metric, level)
	d.Arm, d.Against = h.Arm, h.Against
	c.Comparison = &d
	beyond := func(b Bound) bool {
		return b.Below != nil && d.Interval.High < *b.Below || b.Above != nil && d.Interval.Low > *b.Above
	}
	switch {
	case beyond(h.Expect):
		c.Verdict, c.Why = Supported, "the interval is "+h.Expect.String()
	case beyond(h.Refute):
		c.Verdict, c.Why = Refuted, "the interval is "+h.Refute.String()
	default:
		c.Why = fmt.Sprintf("the interval is neither %s nor %s", h.Expect, h.Refute)
	}
	return c
}

// divergence judges the claim that an arm diverges.
func (at *state) divergence(s Study, h Hypothesis) (Verdict, string) {
	n, all := 0, 0
	for _, seed := range s.Seeds {
		gone, ended := false, false
		for c, r := range at.results {
			if c.arm == s.real(h.Arm) && c.seed == seed {
				gone = gone || r.Diverged != ""
				ended = ended || r.Diverged != "" || c.rung == s.Tokens
			}
		}
		if gone {
			n++
		}
		if ended {
			all++
		}
	}
	why := fmt.Sprintf("%d of %d seeds diverged", n, all)
	switch {
	case all < len(s.Seeds):
		return Inconclusive, why + ", not all were tried"
	case n == all:
		return Supported, why
	case n == 0:
		return Refuted, why
	}
	return Inconclusive, why
}

// String formats the half-line.
func (b Bound) String() string {
	switch {
	case b.Below != nil:
		return "below " + number(*b.Below)
	case b.Above != nil:
		return "above " + number(*b.Above)
	}
	return "nowhere"
}
