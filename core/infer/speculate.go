package infer

import (
	"context"
	"errors"
	"slices"
	"time"

	"mm-abi.org/mm/core/infer/sample"
)

// maxDraft bounds the tokens that are proposed at a time, as the schema of
// graphs does.
const maxDraft = 64

// speculate feeds the last token of the history, and with it tokens, most at
// most, that the draft model proposes; those that stand are put into the text. It gives the
// token that follows them.
//
// The model draws as it would have without a draft, by the same numbers of
// the sampler, and a proposal stands when it is what was drawn: the text is
// the same at any temperature, whether a draft helps or not. (The rule of
// Leviathan et al., arXiv 2211.17192, lets a few more stand, and gives another
// text each time the draft, or what it may propose, is another.) The draft
// draws by a copy of the sampler, so that two models of one opinion draw the
// same.
func (g *generation) speculate(ctx context.Context, last int32, most, from int) (int32, error) {
	proposals, err := g.propose(ctx, min(most, g.room()), from)
	if err != nil {
		return 0, err
	}
	return g.verify(ctx, last, proposals)
}

// room is how many tokens can be proposed: there must be one to come.
func (g *generation) room() int {
	n := g.s.context - g.s.Len() - 1
	if g.opt.MaxTokens > 0 {
		n = min(n, g.opt.MaxTokens-g.stats.Tokens)
	}
	return n
}

// verify feeds the last token of the history and with it proposals; those
// that stand are put into the text. It gives the token that follows them.
func (g *generation) verify(ctx context.Context, last int32, proposals []int32) (int32, error) {
	s := g.s
	g.stats.Drafted += len(proposals)
	tokens := append([]int32{last}, proposals...)
	before := s.Len()
	kept := len(g.history)
	// The rows are copied, and looked at when the model is free again: what
	// emit and the mask do with other sessions of it is theirs to decide.
	g.rows = g.rows[:0]
	if err := s.feed(ctx, input{tokens: tokens, rows: len(tokens)}, len(tokens), func(_ int, logits []float32) {
		g.rows = append(g.rows, logits...)
	}); err != nil {
		return 0, err
	}
	next, err := g.accept(proposals, g.rows)
	// What stands was fed: last, and all that was put but the token that
	// ended the text, which Generate does not feed either.
	stand := len(g.history) - kept
	if g.stats.Reason != "" {
		stand--
	}
	s.Truncate(before + 1 + stand)
	return next, err
}

// accept puts the proposals that stand into the text and draws the token that
// follows them; rows are the logits behind the last token and each proposal.
// What it gives is no token once the text has ended.
func (g *generation) accept(proposals []int32, rows []float32) (next int32, err error) {
	v := len(rows) / (len(proposals) + 1)
	for row := range len(proposals) + 1 {
		token, err := g.choose(rows[row*v : (row+1)*v])
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

// propose lets the draft model continue the history by up to n tokens. It
// reads the first token, on which many models lean, and what there is from
// from on.
func (g *generation) propose(ctx context.Context, n, from int) ([]int32, error) {
	d, text := g.opt.Draft, g.history
	if from > 1 {
		text = append([]int32{g.history[0]}, g.history[from:]...)
	}
	n = min(n, d.context-len(text))
	if n < 1 || slices.Contains(text, vector) {
		return nil, nil // there is no room, or something the draft cannot read
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
			return out, nil // the draft knows no way on; the model may
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

// step reads the last token of the history and gives the one that follows,
// with the help of the draft, or of the text itself, while that pays.
func (g *generation) step(ctx context.Context, last int32) (int32, error) {
	if g.opt.Draft == nil {
		// An observer sees what is fed, and is to see the text.
		if g.opt.Lookup && g.s.observer == nil {
			return g.lookedUp(ctx, last)
		}
		return g.alone(ctx, last)
	}
	if g.opt.AlwaysDraft {
		return g.speculate(ctx, last, g.opt.DraftTokens, 0)
	}
	p := &g.opt.Draft.m.pace
	tokens, start := g.stats.Tokens, time.Now()
	n := p.proposals(g.opt.DraftTokens)
	if n == 0 {
		next, err := g.alone(ctx, last)
		p.walked(1, time.Since(start))
		return next, err
	}
	next, err := g.speculate(ctx, last, n, g.draftFrom(n))
	// The tokens that were put, and the one that will be.
	p.drafted(g.stats.Tokens-tokens+1, time.Since(start))
	return next, err
}

// draftFrom is where in the history the draft begins to read for n proposals.
// For a guess it reads a few tokens where it has missed many: reading would be
// nearly all that a draft costs which is given up again.
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
