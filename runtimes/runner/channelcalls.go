package runner

import (
	"math"

	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes/talk"
)

// channelCalls restricts the calls of harmony: the header of a message names the tool,
// whose arguments are its content. An answer begins within a header.
type channelCalls struct {
	masks map[string]*grammar.Masks // by tool
	tok   *tokenizer.Tokenizer

	start, channel, content, closing int32

	trail trail[channelSpot]
}

// channelSpot is the position after some tokens.
type channelSpot struct {
	header string // of the open message
	inside bool   // within the header
	call   *grammar.Masks
	state  grammar.State // of the call
}

// maxHeaderBytes limits the text of a header that is looked at.
const maxHeaderBytes = 1 << 10

func newChannelCalls(t *talk.Talk, masks map[string]*grammar.Masks) *channelCalls {
	c := &channelCalls{masks: masks, tok: t.Tokenizer(), trail: newTrail(channelSpot{inside: true})}
	c.start, c.channel, c.content = t.Channels()
	_, c.closing, _ = t.Markers()
	return c
}

// next returns the position after a token.
func (c *channelCalls) next(s channelSpot, id int32) channelSpot {
	if s.call != nil {
		state, ok := s.call.Next(s.state, id)
		if !ok || id == c.closing {
			return channelSpot{} // the end, or a call of an engine that no grammar holds
		}
		s.state = state
		return s
	}
	switch {
	case id == c.start || id == c.channel:
		if s.header += " "; !s.inside { // between the role and the channel
			s.header = ""
		}
		s.inside = true
	case id == c.content && s.inside:
		m := c.masks[chat.Recipient(s.header)]
		if m == nil {
			return channelSpot{}
		}
		return channelSpot{call: m, state: m.Start()}
	case s.inside && c.tok.Type(id) == tokenizer.Control:
		s.header += " " // <|constrain|>
	case s.inside && len(s.header) < maxHeaderBytes:
		s.header += c.tok.Piece(id)
	}
	return s
}

func (c *channelCalls) mask(written []int32, logits []float32) int {
	s := c.trail.at(written, c.next)
	if s.call == nil {
		return 0
	}
	allowed := s.call.Mask(s.state)
	for id := range logits {
		if !allowed.Has(int32(id)) {
			logits[id] = float32(math.Inf(-1))
		}
	}
	return allowed.Count()
}

func (c *channelCalls) forced(written []int32) []int32 {
	s := c.trail.at(written, c.next)
	if s.call == nil {
		return nil
	}
	return s.call.Forced(s.state)
}
