package runtimes

import (
	"context"
	"errors"
	"time"
)

// Stepwise bounds a generation of any length: it ends ctx, with [ErrTime] as
// the cause, when a token is longer than limit in coming. The engine calls the
// emit that comes back, whose own time does not count, and end when it is done.
// A limit of 0 is none.
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

// OverTime reports whether err is that of a context which a limit ended.
func OverTime(ctx context.Context, err error) bool {
	ended := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	return ended && errors.Is(context.Cause(ctx), ErrTime)
}
