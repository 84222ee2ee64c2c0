package api

import (
	"context"
	"errors"
)

// Task is work of the server that outlives the request which started it. It counts as
// running when the server drains.
type Task struct {
	server *Server
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Begin begins a task. Its context ends at the end of a drain. The caller must end it.
func (s *Server) Begin() (*Task, error) {
	t := &Task{server: s}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drained {
		t.cancel(nil)
		return nil, errShutdown
	}
	s.tasks[t] = struct{}{}
	s.active.Add(1)
	return t, nil
}

// Context returns the context of the task.
func (t *Task) Context() context.Context { return t.ctx }

// End ends the task, once.
func (t *Task) End() {
	t.server.mu.Lock()
	delete(t.server.tasks, t)
	t.server.mu.Unlock()
	t.cancel(nil)
	t.server.active.Done()
}

// Place waits for a place among the concurrent answers, however many requests wait. Leave
// frees it.
func (t *Task) Place(ctx context.Context) (leave func(), err error) {
	select {
	case t.server.slots <- struct{}{}:
		return func() { <-t.server.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Lend returns the loaded model, or the one that replaced it, which is not closed before
// leave is called.
func (t *Task) Lend(ctx context.Context, m *Model) (a Answerer, leave func(), err error) {
	return t.server.present(m).lend(ctx)
}

// Draining returns a channel that is closed when the server drains.
func (s *Server) Draining() <-chan struct{} { return s.draining }

// ErrShutdown returns the error of requests that a draining server refuses.
func ErrShutdown() *Error { return errShutdown }

// Shutdown reports whether an error is the end of the server.
func Shutdown(err error) bool { return errors.Is(err, errShutdown) }
