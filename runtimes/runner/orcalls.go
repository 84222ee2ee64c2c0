package runner

import (
	"math"
	"strings"

	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/talk"
)

// orCalls restricts an answer to a grammar unless it begins with the marker of a call: then
// it is free, and its calls are read as those of an answer without a grammar. It is a
// runtimes.Constraint.
type orCalls struct {
	answer *grammar.Follower
	tok    *tokenizer.Tokenizer
	open   int32  // the marker as a token, or None
	marker string // as text, if it is not a token
}

// newOrCalls reports dialects whose calls do not begin with a marker.
func newOrCalls(m *grammar.Masks, t *talk.Talk) (*orCalls, error) {
	open, _, _ := t.Markers()
	d := t.Dialect()
	if d.Form == chat.Bare || d.Form == chat.Channel || open == tokenizer.None && d.Open == "" {
		return nil, &runtimes.Unavailable{What: "schema-constrained answer with tools", Why: "the calls of the model's template (" + d.Label + ") begin as an answer does", Hint: "ask for one of the two"}
	}
	return &orCalls{answer: m.Follow(), tok: t.Tokenizer(), open: open, marker: d.Open}, nil
}

// begun returns the text of the written tokens as far as it decides whether they are a call.
func (c *orCalls) begun(written []int32) (text string, called bool) {
	for _, id := range written {
		switch {
		case id == c.open && strings.TrimSpace(text) == "":
			return text, true
		case c.open != tokenizer.None && strings.TrimSpace(text) != "", len(text) >= len(c.marker):
			return text, false
		}
		text += spelling(c.tok, id)
		if c.open == tokenizer.None && strings.HasPrefix(text, c.marker) {
			return text, true
		}
	}
	return text, false
}

// opens reports whether a token after a text is, or continues, the marker.
func (c *orCalls) opens(text string, id int32) bool {
	if c.open != tokenizer.None {
		return id == c.open && strings.TrimSpace(text) == ""
	}
	rest, ok := strings.CutPrefix(c.marker, text)
	if !ok || rest == "" {
		return false
	}
	piece := spelling(c.tok, id)
	return piece != "" && (strings.HasPrefix(rest, piece) || strings.HasPrefix(piece, rest))
}

// Mask implements runtimes.Constraint.
func (c *orCalls) Mask(written []int32, logits []float32) error {
	text, called := c.begun(written)
	if called {
		return nil
	}
	allowed, err := c.answer.Allowed(written)
	if err != nil && !strings.HasPrefix(c.marker, text) {
		return err
	}
	for id := range logits {
		if !(err == nil && allowed.Has(int32(id))) && !c.opens(text, int32(id)) {
			logits[id] = float32(math.Inf(-1))
		}
	}
	return nil
}

// Forced implements runtimes.Constraint.
func (c *orCalls) Forced(written []int32) []int32 {
	if text, called := c.begun(written); called || strings.HasPrefix(c.marker, text) {
		return nil
	}
	return c.answer.Forced(written)
}
