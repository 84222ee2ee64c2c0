package infer

import (
	"context"
	"errors"
	"slices"
	"time"

	"mm-abi.org/mm/core/infer/sample"
)

// maxDraft limits the tokens proposed at a time, as the schema of graphs does.
const maxDraft = 64

// speculate feeds the last token of the history and up to most tokens that the
// draft model proposes, appends the accepted ones to the text and returns the
// next token.
//
// The model draws as it would without a draft, with the same random numbers,
// and a proposal is accepted if it equals the drawn token: the text is the same
// at any temperature, with or without a draft. (The rule of Leviathan et al.,
// arXiv 2211.17192, accepts a few more, but its text depends on the draft and
// its proposals.) The draft draws with a copy of the sampler, so that two
// models with the same distribution draw the same.
func (g *generation) speculate(ctx context.Context, last int32, most, from int) (int32, error) {
	proposals, err := g.propose(ctx, min(most, g.room()), from)
	if err != nil {
		return 0, err
	}
	return g.verify(ctx, last, proposals)
}

// room returns how many tokens can be proposed: one must follow them.
func (g *generation) room() int {
	n := g.s.context - g.s.Len() - 1
	if g.opt.MaxTokens > 0 {
		n = min(n, g.opt.MaxTokens-g.stats.Tokens)
	}
	return n
}

// verify feeds the last token of the history and the proposals, appends the
// accepted ones to the text and returns the next token.
func (g *generation) verify(ctx context.Context, last int32, proposals []int32) (int32, error) {
	s := g.s
	g.stats.Drafted += len(proposals)
	tokens := append([]int32{last}, proposals...)
	before := s.Len()
	start := len(g.history)
	// The rows are copied and evaluated after the model is unlocked: emit and
	// the mask may use other sessions of it.
	g.rows = g.rows[:0]
	if err := s.feed(ctx, []Input{{Tokens: tokens}}, len(tokens), func(_ int, logits []float32) {
		g.rows = append(g.rows, logits...)
	}); err != nil {
		return 0, err
	}
	next, err := g.accept(proposals, g.rows)
	// The accepted tokens were fed: last, and all appended tokens but a stop
	// token, which Generate does not feed either.
	accepted := len(g.history) - start
	if g.stats.Reason != "" {
		accepted--
	}
	s.Truncate(before + 1 + accepted)
	return next, err
}

// accept appends the accepted proposals to the text and returns the next token,
// as without proposals: forced or drawn. Rows are the logits after the last token
// and each proposal. The result is meaningless once the text has ended.
func (g *generation) accept(proposals []int32, rows []float32) (next int32, err error) {
	v := len(rows) / (len(proposals) + 1)
	for row := range len(proposals) + 1 {
		token, err := g.next(rows[row*v : (row+1)*v])
		if err != nil {
			return 0, err
		}
		if row == len(proposals) || token != proposals[row] {
			return token, nil
		}
		g.stats.Accepted++
		if err := g.put(token); err != nil || g.stats.Reason != "" {
			return 0, err
		}
	}
	return 0, nil
}

// propose lets the draft model continue the history by up to n tokens. It reads
// the first token, which many models rely on, and the history from from on.
func (g *generation) propose(ctx context.Context, n, from int) ([]int32, error) {
	d, text := g.opt.Draft, g.history
	if from > 1 {
		text = append([]int32{g.history[0]}, g.history[from:]...)
	}
	n = min(n, d.context-len(text))
	if n < 1 || slices.Contains(text, vector) {
		return nil, nil // no room, or the draft cannot read the history
	}
	if _, err := d.Prompt(ctx, text); err != nil {
		return nil, err
	}
	g.drafter.Follow(g.sampler)
	var out []int32
	history := g.history
	for {
		logits, err := g.mask(d.Logits(), history)
		if err != nil {
			return nil, err
		}
		token, err := g.drafter.Sample(logits, history)
		if errors.Is(err, sample.ErrNone) {
			return out, nil // the draft has no continuation; the model may
		}
		if err != nil {
			return nil, err
		}
		out = append(out, token)
		history = append(history, token)
		if len(out) == n || slices.Contains(g.opt.StopTokens, token) {
			return out, nil
		}
		if err := d.Feed(ctx, []int32{token}); err != nil {
			return nil, err
		}
	}
}

// step reads the last token of the history and returns the next, with the draft
// or the lookup while that pays.
func (g *generation) step(ctx context.Context, last int32) (int32, error) {
	others := g.s.m.schedule.others(g.s)
	lookup := g.opt.Lookup && g.s.observer == nil // which sees everything fed and must see only the text
	switch {
	case g.opt.Draft == nil && lookup:
		return g.stepLookup(ctx, last, others)
	case g.opt.Draft == nil, others >= crowd && !g.opt.AlwaysDraft:
		return g.alone(ctx, last)
	case g.opt.AlwaysDraft:
		return g.speculate(ctx, last, g.opt.DraftTokens, 0)
	}
	p := &g.opt.Draft.m.pace
	if others > 0 { // times measure the others too
		if n := p.settled(g.opt.DraftTokens); n > 0 {
			return g.speculate(ctx, last, n, 0)
		}
		return g.alone(ctx, last)
	}
	tokens, start := g.stats.Tokens, time.Now()
	n := p.proposals(g.opt.DraftTokens)
	if n == 0 {
		next, err := g.alone(ctx, last)
		p.recordAlone(1, time.Since(start))
		return next, err
	}
	next, err := g.speculate(ctx, last, n, g.draftFrom(n))
	// The appended tokens and the next one.
	p.recordDraft(g.stats.Tokens-tokens+1, time.Since(start))
	return next, err
}

// draftFrom returns where the draft starts reading the history for n proposals.
// For a guess after a long gap it reads only a few tokens: reading the rest
// would be most of the cost of a draft that is dropped again.
func (g *generation) draftFrom(n int) int {
	switch {
	case n > 1 || g.opt.DraftTokens == 1:
		g.guessed = 0
	case g.guessed == 0 || len(g.history)-g.guessed > 2*guessReads:
		g.guessed = max(0, len(g.history)-guessReads)
	}
	return g.guessed
}

// alone reads the last token and chooses the next.
func (g *generation) alone(ctx context.Context, last int32) (int32, error) {
	if err := g.s.Feed(ctx, []int32{last}); err != nil {
		return 0, err
	}
	return g.choose(g.s.Logits())
}
