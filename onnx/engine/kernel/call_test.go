package kernel_test

import (
	"context"
	"sync/atomic"
	"testing"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// A panic on another thread is raised in the caller, and an ended context skips
// the rest.
func TestEach(t *testing.T) {
	p := pool.New(3)
	defer p.Close()
	ctx, cancel := context.WithCancel(context.Background())
	c := &kernel.Call{Context: ctx, Pool: p}
	func() {
		defer func() {
			if r := recover(); r != "a fault" {
				t.Errorf("recovered %v", r)
			}
		}()
		c.Each(100, kernel.Grain, func(_, lo, _ int) {
			if lo >= 40 { // not only in the caller's part
				panic("a fault")
			}
		})
	}()
	var done atomic.Int64
	c.Each(100, kernel.Grain, func(_, lo, hi int) { done.Add(int64(hi - lo)) })
	if done.Load() != 100 {
		t.Errorf("%d of 100 done", done.Load())
	}
	done.Store(0)
	c.Each(1000, kernel.Grain, func(_, lo, hi int) {
		switch n := done.Add(int64(hi - lo)); {
		case n == 10:
			cancel()
		case n > 10: // on another thread, before the context ended
			<-ctx.Done()
		}
	})
	if n := done.Load(); n < 10 || n > 10+2 {
		t.Errorf("%d done, the context ended at 10", n)
	}
}
