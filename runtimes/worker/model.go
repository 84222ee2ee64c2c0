package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// Open starts a child and has it open a model, which is a runtimes.Language or
// a runtimes.Function. Limits.Time is kept here as well, by the clock of mm.
func Open(ctx context.Context, opt Options, o wire.Open) (runtimes.Model, error) {
	m := &model{opt: opt.filled(), open: o}
	c, err := m.child(ctx)
	if err != nil {
		return nil, err
	}
	if c.shape == nil {
		return &function{m}, nil
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
	reply, _, err := started.call(ctx, wire.Request{Op: wire.OpOpen, Open: &m.open}, nil, nil)
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

// bounded ends ctx after the time that a call may take.
func (m *model) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if m.open.Limits.Time == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, m.open.Limits.Time, runtimes.ErrTime)
}

// told gives an error its name in the contract.
func (m *model) told(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), runtimes.ErrTime) {
		return fmt.Errorf("%w: a call may take %v", runtimes.ErrTime, m.open.Limits.Time)
	}
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.closed { // its child was told to end, and ended what it had to do
			return fmt.Errorf("the model is %w", runtimes.ErrClosed)
		}
	}
	return err
}

// function is a model of tensors.
type function struct{ *model }

// Run computes.
func (f *function) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	for name, t := range in {
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("input %s: %w", name, err)
		}
	}
	c, err := f.child(ctx)
	if err != nil {
		return nil, err
	}
	ctx, end := f.bounded(ctx)
	defer end()
	list, payload := wire.Tensors(in)
	reply, data, err := c.call(ctx, wire.Request{Op: wire.OpRun, Tensors: list}, payload, nil)
	if err != nil {
		return nil, f.told(ctx, err)
	}
	out, err := wire.Unpacked(reply.Tensors, data)
	if err != nil {
		c.kill(err)
		return nil, fmt.Errorf("the engine's outputs: %w", err)
	}
	return out, nil
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
