package runner

import (
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes/talk"
)

// textCalls restricts the calls of a guided dialect, whose markers may be several
// ordinary tokens, or absent. It reads the text of the written tokens as the reader of
// the answer does.
type textCalls struct {
	talk  *talk.Talk
	masks *grammar.Masks
	tools []string

	d             chat.Dialect
	open, closing int32
	ends          []int32

	trail trail[spot]
}

// spot is the position after some tokens.
type spot struct {
	in        bool          // within a call
	state     grammar.State // of the call
	reasoning bool
	begun     bool   // the turn has text that is not white space
	held      string // text that may begin a call
}

func newTextCalls(t *talk.Talk, m *grammar.Masks, tools []string, thinking bool) *textCalls {
	_, thought := t.Reasoning() // None: the end of the reasoning is not a token
	c := &textCalls{talk: t, masks: m, tools: tools, d: t.Dialect(), ends: t.Ends(), trail: newTrail(spot{reasoning: thinking && thought != tokenizer.None})}
	c.open, c.closing, _ = t.Markers()
	return c
}

// next returns the position after a token.
func (c *textCalls) next(s spot, id int32) spot {
	if s.in {
		state, ok := c.masks.Next(s.state, id)
		if !ok || id == c.closing || c.closing == tokenizer.None && c.masks.Done(state) {
			return spot{begun: true} // the end, or a call of an engine that no grammar holds
		}
		s.state = state
		return s
	}
	if id != tokenizer.None {
		thinking, thought := c.talk.Reasoning()
		switch id {
		case c.open:
			return spot{in: true, begun: true, state: c.masks.Start()}
		case thinking:
			return spot{begun: s.begun, reasoning: true}
		case thought:
			return spot{begun: s.begun}
		}
	}
	if s.reasoning {
		return s
	}
	before, rest, found := c.opening(s, spelling(c.talk.Tokenizer(), id))
	if found == chat.None {
		s.begun = s.begun || strings.TrimSpace(before) != ""
		s.held = rest
		return s
	}
	state, ok := c.masks.Spell(c.masks.Start(), rest)
	return spot{in: ok && !c.masks.Done(state), begun: true, state: state}
}

// opening looks for the start of a call in the held text and a piece.
func (c *textCalls) opening(s spot, piece string) (before, rest string, found chat.Opened) {
	return c.d.Opening(s.held+piece, s.begun, c.open != tokenizer.None, c.tools)
}

// mask sets the logits of tokens that may not follow to -Inf and returns the number of
// those that may; 0: any.
func (c *textCalls) mask(written []int32, logits []float32) int {
	s := c.trail.at(written, c.next)
	if s.in {
		allowed := c.masks.Mask(s.state)
		for id := range logits {
			if !allowed.Has(int32(id)) {
				logits[id] = float32(math.Inf(-1))
			}
		}
		return allowed.Count()
	}
	if s.held == "" {
		return 0
	}
	// A token that completes the opening marker must go on as the call does.
	for id := range logits {
		piece := spelling(c.talk.Tokenizer(), int32(id))
		if piece == "" || !c.completes(s.held, piece) {
			continue
		}
		if _, rest, found := c.opening(s, piece); found != chat.None {
			if _, ok := c.masks.Spell(c.masks.Start(), rest); !ok {
				logits[id] = float32(math.Inf(-1))
			}
		}
	}
	return 0
}

// completes is a cheap test of whether a piece may complete an opening.
func (c *textCalls) completes(held, piece string) bool {
	if c.d.Form == chat.Bare {
		return strings.IndexByte(piece, '"') >= 0
	}
	return strings.IndexByte(piece, c.d.Open[len(c.d.Open)-1]) >= 0 && len(held)+len(piece) >= len(c.d.Open)
}

// forced returns the tokens that must follow.
func (c *textCalls) forced(written []int32) []int32 {
	s := c.trail.at(written, c.next)
	if !s.in {
		return nil
	}
	forced := c.masks.Forced(s.state)
	if c.closing == tokenizer.None { // the end of the turn is the model's choice
		if i := slices.IndexFunc(forced, func(id int32) bool { return slices.Contains(c.ends, id) }); i >= 0 {
			forced = forced[:i]
		}
	}
	return forced
}
