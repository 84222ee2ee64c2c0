package runtimes

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// Grammar says which tokens may follow, as a deterministic automaton over ids:
// data, so that it travels to wherever the engine computes. It begins in state
// 0 with the first token that is generated.
type Grammar struct {
	States []State
}

// Constraint says which tokens may follow what was written since the
// generation began. It is asked by one goroutine at a time.
type Constraint interface {
	// Mask sets the logits of tokens that may not follow to -Inf.
	Mask(written []int32, logits []float32) error
	// Forced are tokens that must follow, whatever the logits; none where the
	// model has a choice.
	Forced(written []int32) []int32
}

// Nowhere is the next state of a token that is not allowed.
const Nowhere int32 = -1

// State is where a text stands. A token takes the edge it lies on, or Else.
type State struct {
	Edges []Edge // ascending, disjoint
	Else  int32  // the next state of every other token; [Nowhere]: none is allowed
}

// Edge is a range of ids and the state behind them.
type Edge struct {
	From, To int32 // inclusive
	Next     int32 // [Nowhere]: not allowed
}

// maxGrammar bounds the edges of a grammar.
const maxGrammar = 1 << 20

// Check reports a grammar that is no automaton.
func (g *Grammar) Check() error {
	if len(g.States) == 0 {
		return fmt.Errorf("a grammar without states")
	}
	edges := 0
	known := func(next int32) bool { return next >= Nowhere && int(next) < len(g.States) }
	for i, s := range g.States {
		if edges += 1 + len(s.Edges); edges > maxGrammar {
			return fmt.Errorf("a grammar of more than %d states and edges", maxGrammar)
		}
		last := int32(-1)
		for _, e := range s.Edges {
			if e.From <= last || e.To < e.From || !known(e.Next) {
				return fmt.Errorf("state %d of a grammar: the edge %d to %d leads to %d, or is out of order", i, e.From, e.To, e.Next)
			}
			last = e.To
		}
		if !known(s.Else) {
			return fmt.Errorf("state %d of a grammar: other tokens lead to %d, which is no state", i, s.Else)
		}
	}
	return nil
}

// Next is the state behind a token; [Nowhere] when it is not allowed.
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

// Mask sets the logits of what may not follow in a state to -Inf.
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

// Sequences is the grammar of a choice: the text is one of the lists of
// tokens, and then one of ends.
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
