package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mm-abi.org/mm/core/infer/sample"
)

// GenerateOptions configures the continuation of a text. The zero value takes
// the most likely tokens until the context is full.
type GenerateOptions struct {
	// MaxTokens limits the number of tokens. If zero, the context is the limit.
	MaxTokens int
	// Sampler chooses tokens.
	Sampler sample.Options
	// StopTokens end the text; the stop token is emitted without text.
	StopTokens []int32
	// Decode returns the text that a token adds. It may hold back an incomplete
	// character. It is called once for each token, in order. If nil, tokens are
	// emitted without text.
	Decode func(token int32) string
	// StopStrings end the text at their first occurrence. They require Decode.
	StopStrings []string
	// Mask may change a copy of the logits of the token that follows history,
	// for example to -Inf for tokens that a grammar does not allow.
	Mask func(history []int32, logits []float32) error
	// Forced returns tokens that must follow history, whatever the logits: they
	// are fed in one batch without sampling. It is asked before each token that
	// it did not return. Stop tokens among them end the text.
	Forced func(history []int32) []int32
	// Draft is a session of a smaller model with the same vocabulary. It
	// proposes tokens that this model verifies in a batch, if that is measured
	// to be faster. The text is the same as without a draft. The contents of
	// the session are replaced.
	Draft *Session
	// Lookup proposes, without a Draft, the tokens that followed an earlier
	// occurrence of the last tokens: many in repetitive text, none otherwise.
	// The text is the same as without.
	Lookup bool
	// DraftTokens is the number of tokens proposed at a time. If zero, it is 4
	// with a draft and at most 15 with a lookup.
	DraftTokens int
	// AlwaysDraft uses the draft or the lookup even if it does not pay.
	AlwaysDraft bool
}

// Token is a generated token.
type Token struct {
	// ID is the token; -1 for text held back until the end.
	ID int32
	// Text is the text that became final with the token: empty while it could
	// begin a stop string, and then all of it.
	Text string
}

// Reason is the reason that ended a text.
type Reason string

// The reasons.
const (
	StopLength  Reason = "length"  // MaxTokens
	StopToken   Reason = "token"   // one of StopTokens
	StopString  Reason = "string"  // one of StopStrings
	StopContext Reason = "context" // the context is full
)

// Stats summarizes a generation.
type Stats struct {
	// Tokens is the number of tokens drawn, including a stop token.
	Tokens int
	// Reason is the reason that ended the text; "" after an error.
	Reason Reason
	// Drafted and Accepted count the proposed and the accepted tokens.
	Drafted, Accepted int
	// Forced counts the forced tokens except the first.
	Forced int
}

// Prompt makes tokens the contents of the session. It keeps the common prefix
// and returns its length. Logits are valid afterwards, unless tokens is empty.
func (s *Session) Prompt(ctx context.Context, tokens []int32) (reused int, err error) {
	for reused < len(tokens) && reused < len(s.tokens) && tokens[reused] == s.tokens[reused] && tokens[reused] != vector {
		reused++
	}
	if reused == len(tokens) && (reused < len(s.tokens) || !s.valid) {
		reused = max(0, reused-1) // the logits of the last token are needed
	}
	for _, b := range s.blocks {
		if b.mutual && b.first < reused {
			reused = b.first // the text is read again without later positions
			break
		}
	}
	s.Truncate(reused)
	return reused, s.Feed(ctx, tokens[reused:])
}

// Generate draws tokens from Logits, which must be valid, emits them, and feeds
// them. The last token is not fed. It returns an error of emit or Mask and a
// cancellation of ctx.
func (s *Session) Generate(ctx context.Context, opt GenerateOptions, emit func(Token) error) (Stats, error) {
	g, err := s.newGeneration(opt, emit)
	if err != nil {
		return Stats{}, err
	}
	s.users.Add(1)
	defer s.users.Add(-1)
	s.m.schedule.enter(s)
	defer s.m.schedule.leave(s)
	token, err := g.next(s.Logits())
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

// next returns the token that follows the history: forced or drawn. Forced
// tokens after it are due.
func (g *generation) next(logits []float32) (int32, error) {
	if len(g.due) == 0 && g.opt.Forced != nil {
		g.due = g.opt.Forced(g.history)
	}
	if len(g.due) > 0 {
		token := g.due[0]
		g.due = g.due[1:]
		return token, nil
	}
	return g.choose(logits)
}

// forced returns the forced tokens that fit into the context.
func (g *generation) forced() []int32 {
	forced := g.due
	g.due = nil
	if len(forced) == 0 && g.opt.Forced != nil {
		forced = g.opt.Forced(g.history)
	}
	return forced[:max(0, min(len(forced), g.room()))]
}

// follow feeds the last token of the history and the forced tokens after it,
// appends these to the text, and returns the next token.
func (g *generation) follow(ctx context.Context, last int32, forced []int32) (next int32, err error) {
	s, before, start := g.s, g.s.Len(), len(g.history)
	if err := s.Feed(ctx, append([]int32{last}, forced...)); err != nil {
		return 0, err
	}
	g.stats.Forced += len(forced)
	for _, token := range forced {
		if err = g.put(token); err != nil || g.stats.Reason != "" {
			// The accepted tokens were fed, except a token that ended the text.
			accepted := len(g.history) - start
			if g.stats.Reason != "" {
				accepted--
			}
			s.Truncate(before + 1 + accepted)
			return 0, err
		}
	}
	return g.next(s.Logits())
}

// generation is the state of one generation.
type generation struct {
	s       *Session
	opt     GenerateOptions
	emit    func(Token) error
	sampler *sample.Sampler
	drafter *sample.Sampler
	history []int32 // fed and drawn
	due     []int32 // forced tokens that follow the last of the history
	masked  []float32
	rows    []float32 // logits of a verified batch
	pending string    // text that may begin a stop string
	guessed int       // where the draft starts reading the history for a guess
	stats   Stats
}

func (s *Session) newGeneration(opt GenerateOptions, emit func(Token) error) (*generation, error) {
	if s.Logits() == nil {
		return nil, ErrNoLogits
	}
	if len(opt.StopStrings) > 0 && opt.Decode == nil {
		return nil, errors.New("stop strings require a decoder")
	}
	if slices.Contains(opt.StopStrings, "") {
		return nil, errors.New("empty stop string")
	}
	if opt.MaxTokens < 0 || opt.DraftTokens < 0 || opt.DraftTokens > maxDraft {
		return nil, fmt.Errorf("bad token counts: max %d, drafted %d, want 0 or more and at most %d drafted", opt.MaxTokens, opt.DraftTokens, maxDraft)
	}
	if d := opt.Draft; d != nil && (d == s || d.m.cfg.Vocab != s.m.cfg.Vocab) {
		return nil, fmt.Errorf("draft must be a different session of a model with %d tokens", s.m.cfg.Vocab)
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

// choose samples the token that follows the history.
func (g *generation) choose(logits []float32) (int32, error) {
	logits, err := g.mask(logits, g.history)
	if err != nil {
		return 0, err
	}
	return g.sampler.Sample(logits, g.history)
}

// put appends a token to the text and sets the reason if it ends the text.
func (g *generation) put(token int32) error {
	g.stats.Tokens++
	g.history = append(g.history, token)
	if slices.Contains(g.opt.StopTokens, token) {
		text := g.pending
		g.pending = ""
		g.stats.Reason = StopToken
		return g.emit(Token{ID: token, Text: text})
	}
	if g.opt.Decode != nil {
		g.pending += g.opt.Decode(token)
	}
	if at := firstOf(g.pending, g.opt.StopStrings); at >= 0 {
		g.stats.Reason = StopString
		return g.emit(Token{ID: token, Text: g.pending[:at]})
	}
	free := len(g.pending) - maybeStop(g.pending, g.opt.StopStrings)
	text := g.pending[:free]
	g.pending = g.pending[free:]
	if err := g.emit(Token{ID: token, Text: text}); err != nil {
		return err
	}
	if g.stats.Tokens == g.opt.MaxTokens {
		return g.end(StopLength)
	}
	return nil
}

// end ends the text for an external reason and emits the held text.
func (g *generation) end(r Reason) error {
	g.stats.Reason = r
	if g.pending == "" {
		return nil
	}
	return g.emit(Token{ID: -1, Text: g.pending})
}

// firstOf returns the index of the first occurrence of any of the strings, or
// -1.
func firstOf(text string, stops []string) int {
	first := -1
	for _, s := range stops {
		if at := strings.Index(text, s); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	return first
}

// maybeStop returns the length of the longest suffix of text that could begin a
// stop string.
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
