package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// Open starts a child and opens a model in it, a runtimes.Language or a
// runtimes.Function. The parent enforces Limits.Time: a child that hangs in a call
// still reports that it is alive.
func Open(ctx context.Context, opt Options, o wire.Open) (runtimes.Model, error) {
	m := &model{opt: opt.filled(), open: o, starting: make(chan struct{}, 1)}
	c, err := m.child(ctx)
	if err != nil {
		return nil, err
	}
	if c.shape == nil {
		return &function{model: m}, nil
	}
	m.shape = *c.shape
	return &language{m}, nil
}

// opened is a child with the model open.
type opened struct {
	*child
	shape *runtimes.Shape // nil: a function
}

// model is an open model, in whichever child.
type model struct {
	opt   Options
	open  wire.Open
	shape runtimes.Shape

	starting chan struct{} // a semaphore of one, held while a child is started
	mu       sync.Mutex
	now      *opened // nil: not started
	closed   bool
}

// current returns the living child, or nil.
func (m *model) current() (*opened, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fmt.Errorf("the model is %w", runtimes.ErrClosed)
	}
	if m.now != nil && m.now.dead() {
		m.now = nil
	}
	return m.now, nil
}

// child returns the living child with the model open, or starts one.
func (m *model) child(ctx context.Context) (*opened, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case m.starting <- struct{}{}:
		defer func() { <-m.starting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c, err := m.current(); c != nil || err != nil {
		return c, err
	}
	started, err := start(ctx, m.opt)
	if err != nil {
		return nil, err
	}
	inner, end := within(ctx, m.beginning())
	defer end()
	reply, _, err := started.call(inner, wire.Request{Op: wire.OpOpen, Open: &m.open}, nil, nil)
	err = m.opt.mapErr(ctx, inner, m.beginning(), opening, err)
	if err == nil && (reply.Shape == nil) != reply.Function {
		err = errors.New("the engine opened neither a language model nor a function")
	}
	if err == nil && reply.Shape != nil {
		reply.Shape.Deep, reply.Shape.Grid, reply.Shape.Mutual = 0, false, false // the pipe carries none of these
		if s := *reply.Shape; s.Vocab < 1 || s.Width < 1 || s.Context < 1 || m.shape != (runtimes.Shape{}) && m.shape != s {
			err = fmt.Errorf("the engine reports the model as %+v, want %+v", s, m.shape)
		}
	}
	if err != nil {
		started.close()
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		started.close()
		return nil, fmt.Errorf("the model is %w", runtimes.ErrClosed)
	}
	m.now = &opened{started, reply.Shape}
	return m.now, nil
}

// Close closes the model and ends the child.
func (m *model) Close() error {
	m.mu.Lock()
	c := m.now
	m.now, m.closed = nil, true
	m.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.close()
}

// function is a model of tensors.
type function struct {
	*model
	results atomic.Int64 // bytes of the last results, reserved in the next request
}

// Asker is a function whose engine answers engine-specific questions.
type Asker interface {
	// Ask asks a question; args and answer are encoded as JSON.
	Ask(ctx context.Context, name string, args, answer any) error
}

// Ask asks the child that has the model open.
func (f *function) Ask(ctx context.Context, name string, args, answer any) error {
	c, err := f.child(ctx)
	if err != nil {
		return err
	}
	inner, end := f.bounded(ctx)
	defer end()
	return f.mapErr(ctx, inner, name, c.ask(inner, name, args, answer))
}

// Run computes.
func (f *function) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	for name, t := range in {
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("input %s: %w", name, err)
		}
	}
	out, err := f.run(ctx, in)
	if errors.Is(err, errUnresponsive) && ctx.Err() == nil { // killed for another caller's request
		out, err = f.run(ctx, in)
	}
	return out, err
}

func (f *function) run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	c, err := f.child(ctx)
	if err != nil {
		return nil, err
	}
	inner, end := f.bounded(ctx)
	defer end()
	room, free := c.room(wire.Fit(in), f.results.Load())
	list, payload, err := wire.Tensors(in, room, 0, func(at int64, b []byte) error { return c.shared.write(room, at, b) })
	if err != nil {
		free()
		return nil, f.mapClosed(fmt.Errorf("sharing inputs: %w", err))
	}
	reply, data, err := c.detached(inner, wire.Request{Op: wire.OpRun, Call: wire.Call{Room: room, Tensors: list}}, payload, free)
	if err != nil {
		return nil, f.mapErr(ctx, inner, computing, err)
	}
	defer free()
	out, err := wire.Unpacked(reply.Tensors, data, room, func(at, n int64) ([]byte, error) { return c.shared.read(room, at, n) })
	if err != nil {
		c.kill(err)
		return nil, f.mapClosed(fmt.Errorf("reading the engine's outputs: %w", err))
	}
	f.results.Store(wire.Fit(out))
	return out, nil
}

// mapClosed returns ErrClosed if shared memory was closed because the model was
// closed during the call.
func (m *model) mapClosed(err error) error {
	if !errors.Is(err, os.ErrClosed) {
		return err
	}
	if _, closed := m.current(); closed != nil {
		return closed
	}
	return err
}

// room reserves shared memory for inputs and results and returns a function that
// frees it. The room is nil if the pipe is faster or the memory is full.
func (c *opened) room(in, out int64) (*wire.Room, func()) {
	if !c.sharing || in+out < int64(c.opt.Share) {
		return nil, func() {}
	}
	r := c.shared.take(in + out)
	if r == nil {
		return nil, func() {}
	}
	return r, sync.OnceFunc(func() { c.shared.free(r) })
}

// language is a model of tokens.
type language struct{ *model }

// Shape returns the size of the model.
func (l *language) Shape() runtimes.Shape { return l.shape }

// NewSequence returns an empty sequence.
func (l *language) NewSequence(ctx context.Context, opt runtimes.SequenceOptions) (runtimes.Sequence, error) {
	s := &sequence{m: l.model, opt: opt, context: opt.Context}
	if s.context == 0 {
		s.context = l.shape.Context
	}
	if s.context < 0 || s.context > l.shape.Context {
		return nil, fmt.Errorf("context of %d positions, the model has %d", opt.Context, l.shape.Context)
	}
	_, err := s.at(ctx)
	return s, err
}
