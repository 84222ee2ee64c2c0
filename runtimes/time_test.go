package runtimes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mm-abi.org/mm/runtimes"
)

func TestStepwise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(int32) error { time.Sleep(time.Hour); return nil }
		ctx, emit, end := runtimes.Stepwise(t.Context(), time.Minute, slow)
		defer end()
		for range 3 {
			time.Sleep(50 * time.Second)
			if err := emit(1); err != nil || ctx.Err() != nil {
				t.Fatal(err, ctx.Err())
			}
		}
		time.Sleep(61 * time.Second)
		if !runtimes.OverTime(ctx, ctx.Err()) {
			t.Errorf("behind a minute without a token: %v, %v", ctx.Err(), context.Cause(ctx))
		}
		ctx, _, end = runtimes.Stepwise(t.Context(), 0, slow)
		end()
		if time.Sleep(time.Hour); ctx.Err() != nil {
			t.Errorf("no limit: %v", ctx.Err())
		}
		ctx, _, end = runtimes.Stepwise(t.Context(), time.Minute, slow)
		if end(); ctx.Err() == nil || runtimes.OverTime(ctx, ctx.Err()) {
			t.Errorf("a generation that ended: %v", ctx.Err())
		}
	})
}
