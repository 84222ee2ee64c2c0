package api

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
)

// Each returns n copies of a request with separate seeds. The first has the seed of the
// request, so that it has the answer of the request alone.
func (a *Ask) Each(n int) []*Ask {
	list := make([]*Ask, n)
	for i := range list {
		one := *a
		one.Request.Preferences.Seed += uint64(i) * seedStep
		list[i] = &one
	}
	return list
}

// Seed returns the seed of a request, or a random one: without a seed, an answer with a
// temperature differs each time.
func Seed(stated *int64) uint64 {
	if stated != nil {
		return uint64(*stated)
	}
	return rand.Uint64()
}

// seedStep separates the seeds of choices. It is odd, so that no two of them are equal.
const seedStep = 0x9e3779b97f4a7c15

// AnswerEach answers several requests at a time, each in a separate place among the
// concurrent answers. Emit, if not nil, receives the index of a request with its text, and is
// called concurrently. The first error ends all.
func (c *Call) AnswerEach(asks []*Ask, emit func(i int, text string) error) ([]*Result, error) {
	listen := func(i int) func(string) error {
		if emit == nil {
			return nil
		}
		return func(text string) error { return emit(i, text) }
	}
	if len(asks) == 0 {
		return nil, Invalid("", "the request has no prompt")
	}
	if len(asks) == 1 {
		r, err := c.Answer(asks[0], listen(0))
		return []*Result{r}, err
	}
	ctx, cancel := context.WithCancelCause(c.R.Context())
	defer cancel(nil)
	one := *c
	one.R = c.R.WithContext(ctx)
	results := make([]*Result, len(asks))
	var all sync.WaitGroup
	for i, a := range asks {
		all.Go(func() {
			part := one
			r, err := part.guarded(a, listen(i))
			if results[i] = r; err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil && c.R.Context().Err() == nil {
		var typed *Error
		if errors.As(err, &typed) {
			return nil, typed
		}
		return nil, err
	}
	return results, context.Cause(ctx)
}

// guarded answers a request. A panic outside the goroutine of the connection, which net/http
// guards, would end the server.
func (c *Call) guarded(ask *Ask, emit func(text string) error) (r *Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("internal error: %v", v)
		}
	}()
	return c.Answer(ask, emit)
}
