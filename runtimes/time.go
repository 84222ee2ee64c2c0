package runtimes

import (
	"context"
	"errors"
	"time"
)

// Stepwise bounds the time per token of a generation: it cancels ctx, with
// [ErrTime] as the cause, if a token takes longer than limit. The engine calls the
// returned emit, whose own time does not count, and end when it is done. If limit
// is 0, there is no bound.
func Stepwise(ctx context.Context, limit time.Duration, emit func(id int32) error) (_ context.Context, timed func(id int32) error, end func()) {
	if limit == 0 {
		return ctx, emit, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(ErrTime) })
	timed = func(id int32) error {
		timer.Stop()
		defer timer.Reset(limit)
		return emit(id)
	}
	return ctx, timed, func() { timer.Stop(); cancel(nil) }
}

// OverTime reports whether err comes from a context that a limit canceled.
func OverTime(ctx context.Context, err error) bool {
	ended := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	return ended && errors.Is(context.Cause(ctx), ErrTime)
}
