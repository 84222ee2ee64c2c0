package qnnlib

import (
	"context"
	"runtime"
)

// thread is the only OS thread that calls the libraries. They keep 5.4 MB for each thread that ever
// called them, and Go calls from any: over 200 contexts loaded, run and freed a process grew by 16
// to 140 MB, on one thread by less than 1 (QAIRT 2.51 on x86-64). Emulation computes one graph at a
// time in any case.
type thread chan func()

// newThread starts a thread that lasts as long as the process.
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

// do runs f on the thread and waits for it. If ctx ends before its turn, it returns.
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
