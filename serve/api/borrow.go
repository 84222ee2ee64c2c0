package api

import (
	"context"

	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
)

// Scorer is an [Answerer] with access to tokens and their probabilities; [runner.Runner]
// implements it.
type Scorer interface {
	Tokenizer(ctx context.Context) (*tokenizer.Tokenizer, error)
	Context(ctx context.Context) (positions int, err error)
	Encode(ctx context.Context, text string) ([]int32, error)
	Score(ctx context.Context, tokens []int32, from, top int) ([]runner.TokenScore, error)
}

// Borrow waits for a place among the concurrent answers and calls use with the model of a
// request. The context of the request ends the work.
func (c *Call) Borrow(ask *Ask, use func(ctx context.Context, s Scorer) error) error {
	return c.borrow(ask, func(ctx context.Context, m Answerer) error {
		s, ok := m.(Scorer)
		if !ok {
			return &runtimes.Unavailable{What: "the probability of a text", Why: "the model does not provide it"}
		}
		return use(ctx, s)
	})
}

func (c *Call) borrow(ask *Ask, use func(ctx context.Context, m Answerer) error) error {
	ctx, leave, err := c.server.enter(c)
	if err != nil {
		return err
	}
	defer leave()
	c.span.reach(ask.Model)
	m, back, err := c.server.present(ask.Model).lend(ctx)
	if err != nil {
		return problem(ctx, err, false, false)
	}
	defer back()
	if err = use(ctx, m); err == nil {
		return nil
	}
	e := problem(ctx, err, false, ask.Foreign)
	if e == errGone {
		c.server.metrics.cancelled()
	}
	return e
}
