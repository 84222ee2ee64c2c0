package runner

import (
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/core/grammar"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes/talk"
)

// namedCalls restricts the calls of Mistral's newer models: a token, the name of a tool,
// a token, the tool's arguments. An id may follow the name, after a further token.
type namedCalls struct {
	masks map[string]*grammar.Masks // by tool
	tok   *tokenizer.Tokenizer
	ends  []int32
	ids   int // the length of an id

	open, args, callID int32

	trail trail[namedSpot]
}

// namedSpot is the position after some tokens.
type namedSpot struct {
	at    place
	name  string // of the tool
	id    string
	call  *grammar.Masks // of the arguments
	state grammar.State
}

// place is a part of a call.
type place int

const (
	outsideCall place = iota
	inName
	inID
	inArguments
)

func newNamedCalls(t *talk.Talk, masks map[string]*grammar.Masks) *namedCalls {
	c := &namedCalls{masks: masks, tok: t.Tokenizer(), ends: t.Ends(), ids: t.Dialect().IDs, trail: newTrail(namedSpot{})}
	c.open, _, _ = t.Markers()
	c.args, c.callID = t.Within()
	return c
}

// next returns the position after a token.
func (c *namedCalls) next(s namedSpot, id int32) namedSpot {
	switch {
	case s.at == inArguments:
		state, ok := s.call.Next(s.state, id)
		if !ok || s.call.Done(state) {
			return namedSpot{} // the end, or a call of an engine that no grammar holds
		}
		s.state = state
	case s.at == outsideCall:
		if id == c.open {
			s = namedSpot{at: inName}
		}
	case id == c.args:
		if s.call = c.masks[s.name]; s.call == nil {
			return namedSpot{}
		}
		s.at, s.state = inArguments, s.call.Start()
	case id == c.callID && s.at == inName:
		s.at = inID
	case s.at == inName && len(s.name) < maxHeaderBytes:
		s.name += spelling(c.tok, id)
	case s.at == inID && len(s.id) < maxHeaderBytes:
		s.id += spelling(c.tok, id)
	}
	return s
}

func (c *namedCalls) mask(written []int32, logits []float32) int {
	s := c.trail.at(written, c.next)
	var allowed func(id int32) bool
	switch s.at {
	case outsideCall:
		return 0
	case inArguments:
		allowed = s.call.Mask(s.state).Has
	case inID:
		allowed = func(id int32) bool {
			piece := spelling(c.tok, id)
			return id == c.args && len(s.id) == c.ids || piece != "" && len(s.id)+len(piece) <= c.ids && strings.Trim(piece, alphanumeric) == ""
		}
	case inName:
		rests := c.rests(s.name)
		complete := c.masks[s.name] != nil
		allowed = func(id int32) bool {
			if id == c.args || id == c.callID && id != tokenizer.None {
				return complete
			}
			piece := spelling(c.tok, id)
			return piece != "" && slices.ContainsFunc(rests, func(rest string) bool { return strings.HasPrefix(rest, piece) })
		}
	}
	n := 0
	for id := range logits {
		if allowed(int32(id)) {
			n++
		} else {
			logits[id] = float32(math.Inf(-1))
		}
	}
	return n
}

// alphanumeric are the characters of ids.
const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// rests returns what follows a text in the names of tools.
func (c *namedCalls) rests(text string) (out []string) {
	for name := range c.masks {
		if rest, ok := strings.CutPrefix(name, text); ok && rest != "" {
			out = append(out, rest)
		}
	}
	return out
}

func (c *namedCalls) forced(written []int32) []int32 {
	s := c.trail.at(written, c.next)
	if s.at != inArguments {
		return nil
	}
	forced := s.call.Forced(s.state)
	if i := slices.IndexFunc(forced, func(id int32) bool { return slices.Contains(c.ends, id) }); i >= 0 {
		forced = forced[:i] // the end of the turn is the model's choice
	}
	return forced
}
