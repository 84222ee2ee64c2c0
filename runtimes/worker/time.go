package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mm-abi.org/mm/runtimes"
)

// What a child is asked for, in errors.
const (
	opening    = "opening the model"
	computing  = "computing"
	reading    = "reading the prompt"
	generating = "the next token"
)

// overTime says that a child took too long. It is runtimes.ErrTime.
type overTime struct {
	engine, what string
	limit        time.Duration
}

func (o *overTime) Error() string {
	return fmt.Sprintf("%v: %s took longer than %v (%s)", runtimes.ErrTime, o.engine, o.limit, o.what)
}

func (o *overTime) Unwrap() error { return runtimes.ErrTime }

// Hint is the way out.
func (*overTime) Hint() string { return "a longer --timeout gives it more" }

// within ends ctx after a time.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, runtimes.ErrTime)
}

// told gives an error its name where a limit ended inner, which is ctx with one,
// and not the caller ctx.
func (o Options) told(ctx, inner context.Context, limit time.Duration, what string, err error) error {
	if ctx.Err() != nil || !runtimes.OverTime(inner, err) {
		return err
	}
	return &overTime{o.Name, what, limit}
}

// limit is how long a call of the model may take.
func (m *model) limit() time.Duration {
	if t := m.open.Limits.Time; t != 0 {
		return t
	}
	return m.opt.Call
}

// beginning is how long a child has for what it must do before calls, again
// too where another was ended.
func (m *model) beginning() time.Duration { return max(m.limit(), m.opt.Start) }

// bounded ends ctx after the time that a call may take.
func (m *model) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return within(ctx, m.limit())
}

// told gives an error of a call its name in the contract; inner is ctx with the
// call's limit.
func (m *model) told(ctx, inner context.Context, what string, err error) error {
	err = m.opt.told(ctx, inner, m.limit(), what, err)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.closed { // its child was told to end, and ended what it had to do
			return fmt.Errorf("the model is %w", runtimes.ErrClosed)
		}
	}
	return err
}
