package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"mm-abi.org/mm/runtimes/worker/wire"
)

// answer queues the frames of one request. The queue is unbounded, so that a slow
// reader does not block other requests.
type answer struct {
	mu     sync.Mutex
	frames []*wire.Frame
	err    error
	more   chan struct{} // signals a new frame
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

// errLeft reports that the caller stopped waiting.
var errLeft = errors.New("left")

// next waits for a frame until leave is closed. Queued frames are returned before
// the error.
func (a *answer) next(leave <-chan struct{}) (*wire.Frame, error) {
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
		select {
		case <-a.more:
		case <-leave:
			return nil, errLeft
		}
	}
}

// call performs a request. If ctx ends, or token returns an error, it cancels the
// request; the child has Options.Grace to answer or is killed. The error is then that
// of ctx or token, and the reply, if any, reports the progress.
func (c *child) call(ctx context.Context, req wire.Request, payload [][]byte, token func(id int32) error) (*wire.Reply, []byte, error) {
	return c.carry(ctx, req, payload, token, nil, func() {})
}

// detached is call for a request without side effects in the child: if ctx ends, it
// waits only for [leaving], and the child's answer, due within the usual time, is
// discarded. On an error, over is called once the child is done with the request.
func (c *child) detached(ctx context.Context, req wire.Request, payload [][]byte, over func()) (*wire.Reply, []byte, error) {
	leave := make(chan struct{})
	gone := context.AfterFunc(ctx, func() { time.AfterFunc(leaving, func() { close(leave) }) })
	defer gone()
	return c.carry(ctx, req, payload, nil, leave, over)
}

// leaving is how long a caller that leaves waits for the child's answer.
const leaving = 30 * time.Millisecond

func (c *child) carry(ctx context.Context, req wire.Request, payload [][]byte, token func(id int32) error, leave <-chan struct{}, over func()) (*wire.Reply, []byte, error) {
	if err := ctx.Err(); err != nil {
		over()
		return nil, nil, err
	}
	a := &answer{more: make(chan struct{}, 1)}
	c.mu.Lock()
	if c.pending == nil || c.why != nil {
		c.mu.Unlock()
		over()
		<-c.gone
		return nil, nil, c.why
	}
	c.next++
	id := c.next
	c.pending[id] = a
	c.mu.Unlock()
	ended := make(chan struct{})
	var ending sync.WaitGroup
	cancel := sync.OnceFunc(func() { ending.Go(func() { c.cancel(id, ended) }) })
	stop := context.AfterFunc(ctx, cancel)
	end := func() {
		close(ended)
		if !stop() {
			cancel() // it started: the child must be registered before it is awaited
		}
		ending.Wait()
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
	}
	reply, data, err := c.exchange(ctx, id, a, req, payload, token, cancel, leave)
	if err != errLeft {
		end()
		if err != nil {
			over()
		}
		return reply, data, err
	}
	c.left.Go(func() {
		defer over()
		defer end()
		for {
			if f, err := a.next(nil); err != nil || f.Kind != wire.KindToken {
				return
			}
		}
	})
	return nil, nil, ctx.Err()
}

// errUnresponsive: the child ignored a cancellation and was killed.
var errUnresponsive = errors.New("canceled request not ended")

// cancel cancels a request, and kills the child if it does not respond.
func (c *child) cancel(id uint64, ended <-chan struct{}) {
	timer := time.AfterFunc(c.opt.Grace, func() {
		c.kill(errUnresponsive)
	})
	defer timer.Stop()
	if c.out.Write(wire.KindCancel, id, nil) != nil {
		return // the child ended
	}
	<-ended
}

func (c *child) exchange(ctx context.Context, id uint64, a *answer, req wire.Request, payload [][]byte, token func(int32) error, cancel func(), leave <-chan struct{}) (*wire.Reply, []byte, error) {
	kind, head := wire.KindRequest, any(req)
	if req.Op == wire.OpRun {
		kind, head = wire.KindRun, &req.Call
	}
	if err := c.out.Write(kind, id, head, payload...); err != nil && !c.broken(err) {
		return nil, nil, err // too large, or not representable as JSON
	}
	var refused error
	for {
		f, err := a.next(leave)
		if err == errLeft {
			return nil, nil, err
		}
		if err != nil {
			return nil, nil, first(refused, ctx.Err(), err)
		}
		if f.Kind != wire.KindToken {
			var r wire.Reply
			if err := read(f, &r); err != nil {
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
				c.kill(errors.New("unexpected token frame"))
				continue
			}
			if refused = token(wire.Numbers[int32](f.Payload)[0]); refused != nil {
				cancel()
			}
		}
	}
}

// read decodes the reply in the last frame of a request.
func read(f *wire.Frame, r *wire.Reply) error {
	if f.Kind == wire.KindReply {
		return f.Decode(r)
	}
	var c wire.Call
	err := f.Decode(&c)
	r.Tensors = c.Tensors
	return err
}

// broken reports whether a write failed because the child ended, which has a better
// error.
func (c *child) broken(err error) bool {
	var sys interface{ Timeout() bool } // errors of the system have it
	if !errors.As(err, &sys) {
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
