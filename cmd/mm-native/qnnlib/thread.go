package qnnlib

import (
	"context"
	"runtime"
)

// thread is the one of the system's threads that calls the libraries. They keep
// 5.4 MB for each that ever called them, and Go calls from whichever is at hand: of
// 200 contexts that were loaded, run and freed a process grew by 16 to 140 MB,
// on one thread by less than 1 (QAIRT 2.51 on x86-64). The emulation computes one graph at a time
// in any case.
type thread chan func()

// newThread starts a thread, which lasts as long as the process.
func newThread() thread {
	t := make(thread)
	go func() {
		runtime.LockOSThread()
		for f := range t {
			f()
		}
	}()
	return t
}

// do has the thread call f and waits for it. Who no longer wants it before its
// turn has come leaves the queue.
func (t thread) do(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case t <- func() { defer close(done); f() }:
		<-done
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
