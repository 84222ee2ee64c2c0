package infer

import (
	"context"
	"errors"
	"slices"

	"mm-abi.org/mm/core/infer/sample"
)

// maxDraft bounds the tokens that are proposed at a time, as the schema of
// graphs does.
const maxDraft = 64

// proposal is a token of the draft model and the distribution it came from.
type proposal struct {
	token int32
	from  []sample.Candidate
}

// speculate feeds the last token of the history, and with it tokens that the
// draft model proposes; those that stand are put into the text. It gives the
// token that follows them (Leviathan et al., arXiv 2211.17192): with p the
// model's distribution and q the draft's, a token stands with probability
// min(1, p/q), and the first that does not is replaced by one drawn from
// max(p-q, 0).
func (g *generation) speculate(ctx context.Context, last int32) (int32, error) {
	s := g.s
	n := min(g.opt.DraftTokens, s.context-s.Len()-1)
	if g.opt.MaxTokens > 0 {
		n = min(n, g.opt.MaxTokens-g.stats.Tokens)
	}
	proposals, err := g.propose(ctx, n)
	if err != nil {
		return 0, err
	}
	g.stats.Drafted += len(proposals)
	tokens := []int32{last}
	for _, p := range proposals {
		tokens = append(tokens, p.token)
	}
	before := s.Len()
	kept := len(g.history)
	// The rows are copied, and looked at when the model is free again: what
	// emit and the mask do with other sessions of it is theirs to decide.
	var rows []float32
	if err := s.feed(ctx, input{tokens: tokens, rows: len(tokens)}, len(tokens), func(_ int, logits []float32) {
		rows = append(rows, logits...)
	}); err != nil {
		return 0, err
	}
	next, err := g.accept(proposals, rows)
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
func (g *generation) accept(proposals []proposal, rows []float32) (next int32, err error) {
	v := len(rows) / (len(proposals) + 1)
	for row := range len(proposals) + 1 {
		logits, err := g.mask(rows[row*v:(row+1)*v], g.history)
		if err != nil {
			return 0, err
		}
		p, err := g.sampler.Distribution(logits, g.history)
		if err != nil {
			return 0, err
		}
		if row == len(proposals) { // all of them stand
			return g.sampler.Draw(p), nil
		}
		d := proposals[row]
		if !g.stands(d, p) {
			sample.Residual(p, d.from)
			return g.sampler.Draw(p), nil
		}
		g.stats.Accepted++
		if err := g.put(d.token); err != nil || g.stats.Reason != "" {
			return 0, err
		}
	}
	return 0, nil
}

// stands decides whether the model takes a proposal.
func (g *generation) stands(d proposal, p []sample.Candidate) bool {
	has, proposed := sample.Probability(p, d.token), sample.Probability(d.from, d.token)
	if has >= proposed {
		return true
	}
	return has > 0 && g.sampler.Float64()*proposed < has
}

// propose lets the draft model continue the history by up to n tokens.
func (g *generation) propose(ctx context.Context, n int) ([]proposal, error) {
	d := g.opt.Draft
	n = min(n, d.context-len(g.history))
	if n < 1 || slices.Contains(g.history, vector) {
		return nil, nil // there is no room, or something the draft cannot read
	}
	if _, err := d.Prompt(ctx, g.history); err != nil {
		return nil, err
	}
	var out []proposal
	history := slices.Clone(g.history)
	for {
		logits, err := g.mask(d.Logits(), history)
		if err != nil {
			return nil, err
		}
		q, err := g.drafter.Distribution(logits, history)
		if errors.Is(err, sample.ErrNone) {
			return out, nil // the draft knows no way on; the model may
		}
		if err != nil {
			return nil, err
		}
		p := proposal{token: g.drafter.Draw(q), from: slices.Clone(q)}
		out = append(out, p)
		history = append(history, p.token)
		if len(out) == n || slices.Contains(g.opt.StopTokens, p.token) {
			return out, nil
		}
		if err := d.Feed(ctx, []int32{p.token}); err != nil {
			return nil, err
		}
	}
}
