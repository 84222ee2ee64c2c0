package runner

import (
	"math"

	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/tokenizer"
)

// CallConstraint restricts the calls of a generation to the grammar. It is a
// runtimes.Constraint.
type CallConstraint struct {
	open, closing int32
	follower      *grammar.Follower // nil: no call may start
	marks         []TokenMark
	held          heldCalls // of a guided dialect or of harmony; nil: both markers are tokens
}

// heldCalls restricts calls whose start is more than a token.
type heldCalls interface {
	// mask sets the logits of tokens that may not follow to -Inf and returns the number
	// of those that may; 0: any.
	mask(written []int32, logits []float32) int
	// forced returns the tokens that must follow.
	forced(written []int32) []int32
}

// trail holds the positions before and after each of some tokens.
type trail[S any] struct {
	tokens []int32
	spots  []S
}

func newTrail[S any](start S) trail[S] { return trail[S]{spots: []S{start}} }

// at returns the position after the written tokens. They may differ from those of the
// last call, since a draft may have been rejected.
func (t *trail[S]) at(written []int32, next func(S, int32) S) S {
	same := 0
	for same < len(written) && same < len(t.tokens) && written[same] == t.tokens[same] {
		same++
	}
	t.tokens, t.spots = t.tokens[:same], t.spots[:same+1]
	for _, id := range written[same:] {
		t.tokens, t.spots = append(t.tokens, id), append(t.spots, next(t.spots[len(t.spots)-1], id))
	}
	return t.spots[len(t.spots)-1]
}

// spelling returns the text of a token, "" for one that is not text.
func spelling(tok *tokenizer.Tokenizer, id int32) string {
	if typ := tok.Type(id); typ == tokenizer.Control || typ == tokenizer.Unknown {
		return ""
	}
	return tok.Piece(id)
}

// TokenMark describes how a token was chosen.
type TokenMark struct {
	Forced  bool
	Allowed int // number of allowed tokens; 0: any
}

// Follow returns the constraint of the next generation, or nil if there is no usable
// grammar; Unheld returns the reason.
//
// Thinking reports whether the answer starts within reasoning.
func (l *ToolLoop) Follow(thinking bool) *CallConstraint {
	open, closing, ok := l.table.talk.Markers()
	if l.table.talk.Dialect().Form == chat.Named {
		if l.masks == nil || l.Unheld() != nil {
			return nil
		}
		return &CallConstraint{held: newNamedCalls(l.table.talk, l.masks.tools)}
	}
	if l.table.talk.Dialect().Guided {
		if l.masks == nil || l.Unheld() != nil {
			return nil
		}
		return &CallConstraint{held: newTextCalls(l.table.talk, l.masks.Masks, l.names, thinking)}
	}
	if l.table.talk.Dialect().Form == chat.Channel {
		if l.masks == nil || l.Unheld() != nil {
			return nil
		}
		return &CallConstraint{held: newChannelCalls(l.table.talk, l.masks.tools)}
	}
	if !ok || l.Unheld() != nil {
		return nil
	}
	c := &CallConstraint{open: open, closing: closing}
	if l.masks != nil {
		c.follower = l.masks.Follow()
	}
	return c
}

// Unheld returns why there is no grammar of the calls.
func (l *ToolLoop) Unheld() error {
	if l.masks == nil {
		return nil
	}
	return l.masks.err
}

// Mask implements runtimes.Constraint.
func (c *CallConstraint) Mask(written []int32, logits []float32) error {
	if c.held != nil {
		c.mark(len(written), TokenMark{Allowed: c.held.mask(written, logits)})
		return nil
	}
	call, within := c.call(written)
	if !within {
		if c.follower == nil && int(c.open) < len(logits) {
			logits[c.open] = float32(math.Inf(-1))
		}
		c.mark(len(written), TokenMark{})
		return nil
	}
	allowed, err := c.follower.Allowed(call)
	if err != nil {
		return err
	}
	for id := range logits {
		if !allowed.Has(int32(id)) {
			logits[id] = float32(math.Inf(-1))
		}
	}
	c.mark(len(written), TokenMark{Allowed: allowed.Count()})
	return nil
}

// Forced implements runtimes.Constraint.
func (c *CallConstraint) Forced(written []int32) []int32 {
	var forced []int32
	if c.held != nil {
		forced = c.held.forced(written)
	} else if call, within := c.call(written); within {
		forced = c.follower.Forced(call)
	}
	for i := range forced {
		c.mark(len(written)+i, TokenMark{Forced: true, Allowed: 1})
	}
	return forced
}

// call returns the tokens of the open call.
func (c *CallConstraint) call(written []int32) ([]int32, bool) {
	for i := len(written) - 1; c.follower != nil && i >= 0; i-- {
		switch written[i] {
		case c.closing:
			return nil, false
		case c.open:
			return written[i+1:], true
		}
	}
	return nil, false
}

// mark records how the token at an index was chosen. A draft's proposals may be recorded
// before the final tokens.
func (c *CallConstraint) mark(at int, m TokenMark) {
	for len(c.marks) <= at {
		c.marks = append(c.marks, TokenMark{})
	}
	c.marks[at] = m
}

// Mark returns how the generated token at an index was chosen.
func (c *CallConstraint) Mark(at int) TokenMark {
	if c == nil || at >= len(c.marks) {
		return TokenMark{}
	}
	return c.marks[at]
}
