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

// Open starts a child and has it open a model, which is a runtimes.Language or
// a runtimes.Function. Limits.Time is kept here, by the clock of mm: a child that
// hangs in the middle of a call goes on to say that it is alive.
func Open(ctx context.Context, opt Options, o wire.Open) (runtimes.Model, error) {
	m := &model{opt: opt.filled(), open: o}
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

// opened is a child that has the model open.
type opened struct {
	*child
	shape *runtimes.Shape // nil: a function
}

// model is what is open, in whichever child.
type model struct {
	opt   Options
	open  wire.Open
	shape runtimes.Shape

	starting sync.Mutex // held while a child is started
	mu       sync.Mutex
	now      *opened // nil: none was started
	closed   bool
}

// current is the child that lives; nil when there is none.
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

// child is a living child with the model open: the one there is, or a new one.
func (m *model) child(ctx context.Context) (*opened, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.starting.Lock()
	defer m.starting.Unlock()
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
	err = m.opt.told(ctx, inner, m.beginning(), opening, err)
	if err == nil && (reply.Shape == nil) != reply.Function {
		err = errors.New("the engine opened neither a language model nor a function")
	}
	if err == nil && reply.Shape != nil {
		if s := *reply.Shape; s.Vocab < 1 || s.Width < 1 || s.Context < 1 || m.shape != (runtimes.Shape{}) && m.shape != s {
			err = fmt.Errorf("the engine says the model is %+v, and was %+v", s, m.shape)
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

// Close ends the child.
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
	results atomic.Int64 // bytes of the last ones, for which there is room in the next request
}

// Asker is a function whose engine answers questions of its own.
type Asker interface {
	// Ask puts a question; args and answer are JSON.
	Ask(ctx context.Context, name string, args, answer any) error
}

// Ask puts a question to the child that has the model open.
func (f *function) Ask(ctx context.Context, name string, args, answer any) error {
	c, err := f.child(ctx)
	if err != nil {
		return err
	}
	inner, end := f.bounded(ctx)
	defer end()
	return f.told(ctx, inner, name, c.ask(inner, name, args, answer))
}

// Run computes.
func (f *function) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	for name, t := range in {
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("input %s: %w", name, err)
		}
	}
	out, err := f.run(ctx, in)
	if errors.Is(err, errDeaf) && ctx.Err() == nil { // it was killed for another's request
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
		return nil, f.beside(fmt.Errorf("sharing inputs: %w", err))
	}
	reply, data, err := c.detached(inner, wire.Request{Op: wire.OpRun, Call: wire.Call{Room: room, Tensors: list}}, payload, free)
	if err != nil {
		return nil, f.told(ctx, inner, computing, err)
	}
	defer free()
	out, err := wire.Unpacked(reply.Tensors, data, room, func(at, n int64) ([]byte, error) { return c.shared.read(room, at, n) })
	if err != nil {
		c.kill(err)
		return nil, f.beside(fmt.Errorf("the engine's outputs: %w", err))
	}
	f.results.Store(wire.Fit(out))
	return out, nil
}

// beside gives an error its name in the contract where memory that was shared is
// closed because the model was, beside the call.
func (m *model) beside(err error) error {
	if !errors.Is(err, os.ErrClosed) {
		return err
	}
	if _, closed := m.current(); closed != nil {
		return closed
	}
	return err
}

// room reserves shared memory for tensors in and results; nil where the pipe
// is better. What it returns with it frees it.
func (c *opened) room(in, out int64) (*wire.Room, func()) {
	if c.shared == nil || in+out < int64(c.opt.Share) {
		return nil, func() {}
	}
	r := c.shared.take(in + out)
	if r == nil {
		return nil, func() {}
	}
	return r, sync.OnceFunc(func() { c.shared.give(r) })
}

// language is a model of tokens.
type language struct{ *model }

// Shape is the size of the model.
func (l *language) Shape() runtimes.Shape { return l.shape }

// NewSequence begins an empty sequence.
func (l *language) NewSequence(ctx context.Context, opt runtimes.SequenceOptions) (runtimes.Sequence, error) {
	s := &sequence{m: l.model, opt: opt, context: opt.Context}
	if s.context == 0 {
		s.context = l.shape.Context
	}
	if s.context < 0 || s.context > l.shape.Context {
		return nil, fmt.Errorf("a sequence of %d positions: the model has room for %d", opt.Context, l.shape.Context)
	}
	_, err := s.at(ctx)
	return s, err
}
