package runtimes

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// Grammar restricts the tokens that may follow. It is a deterministic automaton
// over ids, plain data that can be sent to another process. It starts in state 0
// with the first generated token.
type Grammar struct {
	States []State
}

// Constraint restricts the tokens that may follow those written since the
// generation began. It need not be safe for concurrent use.
type Constraint interface {
	// Mask sets the logits of forbidden tokens to -Inf.
	Mask(written []int32, logits []float32) error
	// Forced returns tokens that must follow whatever the logits; none if the
	// model has a choice.
	Forced(written []int32) []int32
}

// Nowhere is the next state of a token that is not allowed.
const Nowhere int32 = -1

// State is a state of a [Grammar]. A token follows the edge that contains it, or Else.
type State struct {
	Edges []Edge // ascending, disjoint
	Else  int32  // next state of every other token; [Nowhere]: none is allowed
}

// Edge maps a range of ids to the next state.
type Edge struct {
	From, To int32 // inclusive
	Next     int32 // [Nowhere]: not allowed
}

// maxGrammar bounds the edges of a grammar.
const maxGrammar = 1 << 20

// Check reports a malformed grammar.
func (g *Grammar) Check() error {
	if len(g.States) == 0 {
		return fmt.Errorf("grammar without states")
	}
	edges := 0
	valid := func(next int32) bool { return next >= Nowhere && int(next) < len(g.States) }
	for i, s := range g.States {
		if edges += 1 + len(s.Edges); edges > maxGrammar {
			return fmt.Errorf("grammar with more than %d states and edges", maxGrammar)
		}
		last := int32(-1)
		for _, e := range s.Edges {
			if e.From <= last || e.To < e.From || !valid(e.Next) {
				return fmt.Errorf("grammar state %d: bad edge %d to %d, next state %d", i, e.From, e.To, e.Next)
			}
			last = e.To
		}
		if !valid(s.Else) {
			return fmt.Errorf("grammar state %d: bad next state %d of other tokens", i, s.Else)
		}
	}
	return nil
}

// Next returns the state after a token, or [Nowhere] if it is not allowed.
func (g *Grammar) Next(state, token int32) int32 {
	if state < 0 || int(state) >= len(g.States) {
		return Nowhere
	}
	s := &g.States[state]
	i := sort.Search(len(s.Edges), func(i int) bool { return s.Edges[i].To >= token })
	if i < len(s.Edges) && s.Edges[i].From <= token {
		return s.Edges[i].Next
	}
	return s.Else
}

// Mask sets the logits of tokens that a state forbids to -Inf.
func (g *Grammar) Mask(state int32, logits []float32) {
	s := State{Else: Nowhere}
	if state >= 0 && int(state) < len(g.States) {
		s = g.States[state]
	}
	done := 0
	forbid := func(to int, allowed bool) {
		to = min(to, len(logits))
		for ; done < to; done++ {
			if !allowed {
				logits[done] = float32(math.Inf(-1))
			}
		}
	}
	for _, e := range s.Edges {
		forbid(int(e.From), s.Else != Nowhere)
		forbid(int(e.To)+1, e.Next != Nowhere)
	}
	forbid(len(logits), s.Else != Nowhere)
}

// Sequences returns the grammar of a choice: one of the token lists, then one of
// ends.
func Sequences(choices [][]int32, ends []int32) *Grammar {
	g := &Grammar{States: []State{{Else: Nowhere}}}
	next := make(map[[2]int32]int32) // state, token → state
	step := func(state, token int32) int32 {
		key := [2]int32{state, token}
		if to, ok := next[key]; ok {
			return to
		}
		to := int32(len(g.States))
		g.States = append(g.States, State{Else: Nowhere})
		next[key] = to
		g.States[state].Edges = append(g.States[state].Edges, Edge{token, token, to})
		return to
	}
	for _, c := range choices {
		at := int32(0)
		for _, token := range c {
			at = step(at, token)
		}
		for _, token := range ends {
			step(at, token)
		}
	}
	for i := range g.States {
		slices.SortFunc(g.States[i].Edges, func(a, b Edge) int { return int(a.From) - int(b.From) })
	}
	return g
}
