package study

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// action is the next thing to do in a run.
type action struct {
	event string
	arm   Arm
	seed  uint64
	rung  int // tokens
	cost  int // tokens
	row   Payload
}

// plan computes the actions of a run from its state, so that a resumed run takes the same.
type plan struct {
	s  Study
	at *state
}

// rungs returns the tokens at which trials are scored, the end included.
func (s Study) rungs() []int { return append(slices.Clone(s.Scheduler.Rungs), s.Tokens) }

// next returns the next action; Ended is the last one.
func (p plan) next() action {
	if !p.at.sealed && p.at.exhausted == "" {
		if all := p.trials(); len(all) > 0 {
			return p.within(all[0])
		}
	}
	if !p.at.sealed {
		return action{event: Sealed, row: Payload{Winner: p.winner()}}
	}
	if all := p.judges(); len(all) > 0 {
		return all[0]
	}
	return action{event: Ended}
}

// trials returns the next trials, none of which depends on another, or the next choice.
func (p plan) trials() (out []action) {
	before := 0
	for i, rung := range p.s.rungs() {
		for _, arm := range p.s.Arms {
			if arm.Same != "" || p.at.dropped[arm.Name] > 0 || p.at.diverged(arm.Name) != "" && !p.any(arm, rung) {
				continue
			}
			for _, seed := range p.s.Seeds {
				if _, done := p.at.results[cell{arm.Name, seed, rung}]; !done {
					out = append(out, action{event: Trained, arm: arm, seed: seed, rung: rung, cost: rung - before})
				}
			}
		}
		if len(out) > 0 {
			return out
		}
		if i < len(p.s.Scheduler.Rungs) && !p.at.chosen[rung] {
			return []action{p.choose(rung)}
		}
		before = rung
	}
	for _, arm := range p.s.gridArms() {
		for _, seed := range p.s.Seeds {
			if _, done := p.at.results[cell{arm.Name, seed, arm.Tokens}]; !done {
				out = append(out, action{event: Trained, arm: arm, seed: seed, rung: arm.Tokens, cost: arm.Tokens})
			}
		}
	}
	return out
}

// any reports whether a trial of the arm was scored at the rung: an arm that diverged there
// with one seed is tried with the others, but goes no further.
func (p plan) any(arm Arm, rung int) bool {
	return slices.ContainsFunc(p.s.Seeds, func(seed uint64) bool { _, ok := p.at.results[cell{arm.Name, seed, rung}]; return ok })
}

// within returns a, or the end of the budget if a does not fit into it.
func (p plan) within(a action) action {
	b, over := p.s.Budget, ""
	switch {
	case a.event != Trained:
	case b.Tokens > 0 && p.at.tokens+a.cost > b.Tokens:
		over = fmt.Sprintf("tokens: %d of %d spent, the next trial needs %d", p.at.tokens, b.Tokens, a.cost)
	case b.Time > 0 && p.at.seconds >= b.limit().Seconds():
		over = fmt.Sprintf("time: %s spent", b.limit())
	case b.Joules > 0 && p.at.joules >= b.Joules:
		over = fmt.Sprintf("energy: %v J spent", b.Joules)
	}
	if over != "" {
		return action{event: Exhausted, row: Payload{Reason: over}}
	}
	return a
}

// kept reports whether the scheduler never drops an arm: the base, and the arms of
// hypotheses.
func (p plan) kept(name string) bool {
	return name == BaseArm || slices.ContainsFunc(p.s.Hypotheses, func(h Hypothesis) bool { return p.s.real(h.Arm) == name || p.s.real(h.Against) == name })
}

// real returns the arm that runs for name: an earlier one with the same recipe, if any.
func (s Study) real(name string) string {
	for _, a := range s.Arms {
		if a.Name == name && a.Same != "" {
			return a.Same
		}
	}
	return name
}

// ranking returns the arms with results of all seeds at a rung, the best first.
func (p plan) ranking(rung int) []string {
	var out []string
	loss := map[string]float64{}
	for _, a := range p.s.Arms {
		if v, ok := p.at.mean(a.Name, p.s.Seeds, rung); ok {
			loss[a.Name] = v
			out = append(out, a.Name)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(loss[a], loss[b]) })
	return out
}

// choose keeps the best of eta at a rung.
func (p plan) choose(rung int) action {
	row := Payload{Rung: rung}
	var open []string
	for _, name := range p.ranking(rung) {
		if p.kept(name) {
			row.Kept = append(row.Kept, name)
		} else {
			open = append(open, name)
		}
	}
	n := ceil(len(open), p.s.Scheduler.Eta)
	row.Kept = append(row.Kept, open[:n]...)
	row.Dropped = open[n:]
	return action{event: Chosen, row: row}
}

// winner returns the arm with the lowest loss on the documents of the choice, or "" if no
// arm was trained to the end.
func (p plan) winner() string {
	if all := p.ranking(p.s.Tokens); len(all) > 0 {
		return all[0]
	}
	return ""
}

// judges returns the arms to score on the sealed documents.
func (p plan) judges() (out []action) {
	for _, name := range p.s.orders() {
		if _, done := p.at.results[cell{name, 0, 0}]; !done {
			out = append(out, action{event: Judged, arm: Arm{Name: name}})
		}
	}
	for _, a := range append(slices.Clone(p.s.Arms), p.s.gridArms()...) {
		end := cmp.Or(a.Tokens, p.s.Tokens)
		if a.Tokens == 0 && !p.kept(a.Name) && a.Name != p.at.winner {
			continue
		}
		if _, ok := p.at.mean(a.Name, p.s.Seeds, end); !ok {
			continue
		}
		for _, seed := range p.s.Seeds {
			if _, done := p.at.results[cell{a.Name, seed, 0}]; !done {
				out = append(out, action{event: Judged, arm: a, seed: seed, rung: end})
			}
		}
	}
	return out
}

// orders returns the models of token counts that are judged: all of them.
func (s Study) orders() []string { return baselines }

// gridArms returns the cells of the grid as arms.
func (s Study) gridArms() []Arm {
	if s.Grid == nil {
		return nil
	}
	var out []Arm
	for _, size := range s.Grid.Sizes {
		for _, n := range s.Grid.Tokens {
			if a, err := s.gridArm(size, n); err == nil { // reported when the study was read
				out = append(out, a)
			}
		}
	}
	return out
}

// gridArm returns a cell of the grid: the arm of the grid in a size.
func (s Study) gridArm(size Size, tokens int) (Arm, error) {
	a := Arm{Name: fmt.Sprintf("grid:%s@%d", size.name(), tokens), Tokens: tokens, Changes: map[string]json.RawMessage{}}
	for _, of := range s.Arms {
		if of.Name == s.Grid.Arm {
			maps.Copy(a.Changes, of.Changes)
			a.Share = of.Share
		}
	}
	maps.Copy(a.Changes, size.set(s.Base.WithDefaults()))
	err := size.check(s.Base.WithDefaults())
	if err == nil {
		a.Config, err = changed(s.Base, a.Changes)
	}
	return a, err
}
