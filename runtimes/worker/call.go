package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"mm-abi.org/mm/runtimes/worker/wire"
)

// answer collects the frames of one request. It takes any number, so that a
// slow reader of one holds up no other.
type answer struct {
	mu     sync.Mutex
	frames []*wire.Frame
	err    error
	more   chan struct{} // something has come
}

func (a *answer) put(f *wire.Frame) {
	a.mu.Lock()
	a.frames = append(a.frames, f)
	a.mu.Unlock()
	a.wake()
}

func (a *answer) end(err error) {
	a.mu.Lock()
	a.err = err
	a.mu.Unlock()
	a.wake()
}

func (a *answer) wake() {
	select {
	case a.more <- struct{}{}:
	default:
	}
}

// next waits for a frame. Those that have come are given before the error.
func (a *answer) next() (*wire.Frame, error) {
	for {
		a.mu.Lock()
		if len(a.frames) > 0 {
			f := a.frames[0]
			a.frames = a.frames[1:]
			a.mu.Unlock()
			return f, nil
		}
		err := a.err
		a.mu.Unlock()
		if err != nil {
			return nil, err
		}
		<-a.more
	}
}

// call has a request carried out. When ctx ends, or token gives an error, the
// child is told and has Options.Grace to answer, or is killed; the error is
// then that of ctx or of token, and the reply, if any, says how far it came.
func (c *child) call(ctx context.Context, req wire.Request, payload [][]byte, token func(id int32) error) (*wire.Reply, []byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	a := &answer{more: make(chan struct{}, 1)}
	c.mu.Lock()
	if c.pending == nil || c.why != nil {
		c.mu.Unlock()
		<-c.gone
		return nil, nil, c.why
	}
	c.next++
	id := c.next
	c.pending[id] = a
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
	}()
	ended := make(chan struct{})
	var ending sync.WaitGroup
	cancel := sync.OnceFunc(func() { ending.Go(func() { c.cancel(id, ended) }) })
	stop := context.AfterFunc(ctx, cancel)
	reply, data, err := c.exchange(ctx, id, a, req, payload, token, cancel)
	close(ended)
	if !stop() {
		cancel() // it has begun: waiting for it needs it to be known
	}
	ending.Wait()
	return reply, data, err
}

// cancel tells the child to end a request, and ends the child if it does not.
func (c *child) cancel(id uint64, ended <-chan struct{}) {
	timer := time.AfterFunc(c.opt.Grace, func() {
		c.kill(errors.New("it did not end a request that was cancelled"))
	})
	defer timer.Stop()
	if c.out.Write(wire.KindCancel, id, nil) != nil {
		return // it is gone
	}
	<-ended
}

func (c *child) exchange(ctx context.Context, id uint64, a *answer, req wire.Request, payload [][]byte, token func(int32) error, cancel func()) (*wire.Reply, []byte, error) {
	if err := c.out.Write(wire.KindRequest, id, req, payload...); err != nil && !c.broken(err) {
		return nil, nil, err // it is too large, or no JSON
	}
	var refused error
	for {
		f, err := a.next()
		if err != nil {
			return nil, nil, first(refused, ctx.Err(), err)
		}
		if f.Kind == wire.KindReply {
			var r wire.Reply
			if err := f.Decode(&r); err != nil {
				c.kill(err)
				<-c.gone
				return nil, nil, c.why
			}
			if err := first(refused, ctx.Err()); err != nil {
				return &r, nil, err
			}
			return &r, f.Payload, r.Fault.Err()
		}
		if refused == nil && ctx.Err() == nil {
			if len(f.Payload) != 4 || token == nil {
				c.kill(errors.New("it sent a token where none was due"))
				continue
			}
			if refused = token(wire.Numbers[int32](f.Payload)[0]); refused != nil {
				cancel()
			}
		}
	}
}

// broken says whether a write failed because the child is gone, for which
// there will be a better word.
func (c *child) broken(err error) bool {
	var own interface{ Timeout() bool } // errors of the system have it
	if !errors.As(err, &own) {
		return false
	}
	c.kill(err)
	return true
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
