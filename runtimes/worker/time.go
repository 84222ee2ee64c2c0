package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mm-abi.org/mm/runtimes"
)

// The operations of a child in errors.
const (
	opening    = "opening the model"
	computing  = "computing"
	reading    = "reading the prompt"
	generating = "the next token"
)

// overTime reports that a child exceeded a time limit. It is runtimes.ErrTime.
type overTime struct {
	engine, what string
	limit        time.Duration
}

func (o *overTime) Error() string {
	return fmt.Sprintf("%v: %s took longer than %v (%s)", runtimes.ErrTime, o.engine, o.limit, o.what)
}

func (o *overTime) Unwrap() error { return runtimes.ErrTime }

// Hint names the flag that extends the limit.
func (*overTime) Hint() string { return "raise --timeout" }

// within adds a time limit to ctx.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, runtimes.ErrTime)
}

// mapErr returns an overTime error if the limit ended inner, which is ctx with the
// limit, and ctx itself is still valid.
func (o Options) mapErr(ctx, inner context.Context, limit time.Duration, what string, err error) error {
	if ctx.Err() != nil || !runtimes.OverTime(inner, err) {
		return err
	}
	return &overTime{o.Name, what, limit}
}

// limit returns the time limit of a call.
func (m *model) limit() time.Duration {
	if t := m.open.Limits.Time; t != 0 {
		return t
	}
	return m.opt.Call
}

// beginning returns the time limit of preparations such as opening the model again in
// a new child.
func (m *model) beginning() time.Duration { return max(m.limit(), m.opt.Start) }

// bounded adds the time limit of a call to ctx.
func (m *model) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return within(ctx, m.limit())
}

// mapErr maps the error of a call to the errors of package runtimes; inner is ctx with
// the limit of the call.
func (m *model) mapErr(ctx, inner context.Context, what string, err error) error {
	err = m.opt.mapErr(ctx, inner, m.limit(), what, err)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.closed { // closing canceled the child's requests
			return fmt.Errorf("the model is %w", runtimes.ErrClosed)
		}
	}
	return err
}
