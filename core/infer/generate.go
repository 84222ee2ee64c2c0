package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/core/infer/sample"
)

// GenerateOptions is how a text is continued. The zero value takes the
// likeliest tokens until the context is full.
type GenerateOptions struct {
	// MaxTokens bounds the number of tokens; 0 means as many as there is room
	// for.
	MaxTokens int
	// Sampler chooses tokens.
	Sampler sample.Options
	// StopTokens end the text; the one that does is emitted, without text.
	StopTokens []int32
	// Decode gives the text that a token adds. It may hold bytes back until a
	// character is whole. It is called once a token, in order; without it
	// tokens are emitted without text.
	Decode func(token int32) string
	// StopStrings end the text where one of them begins. Needs Decode.
	StopStrings []string
	// Mask may change the logits of the token that follows history, such as
	// set those to -Inf that a grammar does not allow. The logits are a copy.
	Mask func(history []int32, logits []float32) error
	// Forced gives tokens that must follow history, whatever the logits: they
	// are read together, and nothing is drawn. Stop tokens among them end the
	// text.
	Forced func(history []int32) []int32
	// Draft is a session of a smaller model of the same vocabulary, which
	// proposes tokens that this model then checks together, where that is
	// measured to be faster. The text is the same as without. The contents of
	// the session are replaced.
	Draft *Session
	// Lookup proposes, where there is no Draft, what followed the last tokens
	// when they stood in the text before, in the same manner: many tokens
	// where much is repeated, none where nothing is. The text is the same as
	// without.
	Lookup bool
	// DraftTokens is how many are proposed at a time; 0 means 4 of a draft
	// and at most 15 of the text.
	DraftTokens int
	// AlwaysDraft does not ask whether a draft, or what the text proposes,
	// pays.
	AlwaysDraft bool
}

// Token is a step of the text.
type Token struct {
	// ID is the token; -1 for the text that was still held back at the end.
	ID int32
	// Text is what became certain with the token: nothing while it could be
	// the beginning of a stop string, and then all of it.
	Text string
}

// Reason is why a text ended.
type Reason string

// The reasons.
const (
	StopLength  Reason = "length"  // MaxTokens
	StopToken   Reason = "token"   // one of StopTokens
	StopString  Reason = "string"  // one of StopStrings
	StopContext Reason = "context" // the context is full
)

// Stats is what a generation did.
type Stats struct {
	// Tokens is how many were drawn, the one that ended the text included.
	Tokens int
	// Reason is why it ended; empty after an error.
	Reason Reason
	// Drafted and Accepted count the tokens that were proposed and those of
	// them that stand.
	Drafted, Accepted int
	// Forced counts the tokens for which nothing was drawn, but the first.
	Forced int
}

// Prompt makes tokens the contents of the session. Positions at the beginning
// that are the same already are kept; it gives their number. Logits are known
// afterwards, unless tokens is empty.
func (s *Session) Prompt(ctx context.Context, tokens []int32) (reused int, err error) {
	for reused < len(tokens) && reused < len(s.tokens) && tokens[reused] == s.tokens[reused] && tokens[reused] != vector {
		reused++
	}
	if reused == len(tokens) && (reused < len(s.tokens) || !s.known) {
		reused = max(0, reused-1) // the logits of the last token are needed
	}
	s.Truncate(reused)
	return reused, s.Feed(ctx, tokens[reused:])
}

// Generate draws tokens from Logits, which must be known, emits them, and
// feeds them again. The last token is not fed. An error of emit or Mask ends
// it and is returned, and so is the end of ctx.
func (s *Session) Generate(ctx context.Context, opt GenerateOptions, emit func(Token) error) (Stats, error) {
	g, err := s.newGeneration(opt, emit)
	if err != nil {
		return Stats{}, err
	}
	token, err := g.first()
	if err != nil {
		return g.stats, err
	}
	for {
		if err := g.put(token); err != nil || g.stats.Reason != "" {
			return g.stats, err
		}
		if s.Len() == s.context {
			return g.stats, g.end(StopContext)
		}
		if forced := g.forced(); len(forced) > 0 {
			token, err = g.follow(ctx, token, forced)
		} else {
			token, err = g.step(ctx, token)
		}
		if err != nil || g.stats.Reason != "" {
			return g.stats, err
		}
	}
}

// first is the first token: one that is forced, or one that is drawn.
func (g *generation) first() (int32, error) {
	if g.opt.Forced != nil {
		if forced := g.opt.Forced(g.history); len(forced) > 0 {
			return forced[0], nil
		}
	}
	return g.choose(g.s.Logits())
}

// forced are the tokens that must follow and for which there is room.
func (g *generation) forced() []int32 {
	if g.opt.Forced == nil {
		return nil
	}
	forced := g.opt.Forced(g.history)
	return forced[:max(0, min(len(forced), g.room()))]
}

// follow feeds the last token of the history and those that must follow it,
// puts these into the text, and gives the token behind them.
func (g *generation) follow(ctx context.Context, last int32, forced []int32) (next int32, err error) {
	s, before, kept := g.s, g.s.Len(), len(g.history)
	if err := s.Feed(ctx, append([]int32{last}, forced...)); err != nil {
		return 0, err
	}
	g.stats.Forced += len(forced)
	for _, token := range forced {
		if err = g.put(token); err != nil || g.stats.Reason != "" {
			// What stands was fed; of the token that ended the text nothing is.
			stand := len(g.history) - kept
			if g.stats.Reason != "" {
				stand--
			}
			s.Truncate(before + 1 + stand)
			return 0, err
		}
	}
	return g.choose(s.Logits())
}

// generation is a text being written.
type generation struct {
	s       *Session
	opt     GenerateOptions
	emit    func(Token) error
	sampler *sample.Sampler
	drafter *sample.Sampler
	history []int32 // fed and drawn
	masked  []float32
	rows    []float32 // logits of a batch that is verified
	held    string    // text that may belong to a stop string
	guessed int       // where in the history the draft reads from, while it guesses
	stats   Stats
}

func (s *Session) newGeneration(opt GenerateOptions, emit func(Token) error) (*generation, error) {
	if s.Logits() == nil {
		return nil, ErrNoLogits
	}
	if len(opt.StopStrings) > 0 && opt.Decode == nil {
		return nil, errors.New("stop strings need a decoder")
	}
	if slices.Contains(opt.StopStrings, "") {
		return nil, errors.New("a stop string is empty")
	}
	if opt.MaxTokens < 0 || opt.DraftTokens < 0 || opt.DraftTokens > maxDraft {
		return nil, fmt.Errorf("%d tokens, %d drafted: neither may be negative, nor the latter above %d", opt.MaxTokens, opt.DraftTokens, maxDraft)
	}
	if d := opt.Draft; d != nil && (d == s || d.m.cfg.Vocab != s.m.cfg.Vocab) {
		return nil, fmt.Errorf("the draft must be another session, of a model with %d tokens", s.m.cfg.Vocab)
	}
	switch {
	case opt.Draft == nil:
		if opt.DraftTokens == 0 || opt.DraftTokens > lookupTokens {
			opt.DraftTokens = lookupTokens
		}
	case opt.DraftTokens == 0:
		opt.DraftTokens = 4
	}
	sampler, err := sample.New(opt.Sampler)
	if err != nil {
		return nil, err
	}
	drafter, err := sample.New(opt.Sampler)
	if err != nil {
		return nil, err
	}
	return &generation{
		s: s, opt: opt, emit: emit, sampler: sampler, drafter: drafter,
		history: slices.Clone(s.tokens),
	}, nil
}

// mask applies the mask hook to a copy of logits.
func (g *generation) mask(logits []float32, history []int32) ([]float32, error) {
	if g.opt.Mask == nil {
		return logits, nil
	}
	g.masked = append(g.masked[:0], logits...)
	return g.masked, g.opt.Mask(history, g.masked)
}

// choose draws the token that follows the history.
func (g *generation) choose(logits []float32) (int32, error) {
	logits, err := g.mask(logits, g.history)
	if err != nil {
		return 0, err
	}
	return g.sampler.Sample(logits, g.history)
}

// put adds a token to the text and sets the reason if that ends it.
func (g *generation) put(token int32) error {
	g.stats.Tokens++
	g.history = append(g.history, token)
	if slices.Contains(g.opt.StopTokens, token) {
		text := g.held
		g.held = ""
		g.stats.Reason = StopToken
		return g.emit(Token{ID: token, Text: text})
	}
	if g.opt.Decode != nil {
		g.held += g.opt.Decode(token)
	}
	if at := firstOf(g.held, g.opt.StopStrings); at >= 0 {
		g.stats.Reason = StopString
		return g.emit(Token{ID: token, Text: g.held[:at]})
	}
	free := len(g.held) - maybeStop(g.held, g.opt.StopStrings)
	text := g.held[:free]
	g.held = g.held[free:]
	if err := g.emit(Token{ID: token, Text: text}); err != nil {
		return err
	}
	if g.stats.Tokens == g.opt.MaxTokens {
		return g.end(StopLength)
	}
	return nil
}

// end stops for a reason that is not in the text, and lets go of what was
// held back.
func (g *generation) end(r Reason) error {
	g.stats.Reason = r
	if g.held == "" {
		return nil
	}
	return g.emit(Token{ID: -1, Text: g.held})
}

// firstOf is where the first occurrence of any of the strings begins, or -1.
func firstOf(text string, stops []string) int {
	first := -1
	for _, s := range stops {
		if at := strings.Index(text, s); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// maybeStop is the length of the longest end of text that could be the
// beginning of a stop string.
func maybeStop(text string, stops []string) int {
	longest := 0
	for _, s := range stops {
		for n := min(len(s)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, s[:n]) {
				longest = n
			}
		}
	}
	return longest
}
