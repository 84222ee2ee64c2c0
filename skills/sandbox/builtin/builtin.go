// Package builtin runs tools that are part of mm: Go functions under the
// contract of every other guest.
//
// Nothing can be taken away from a function of one's own program, so it is not
// locked in but metered: it says what it is about to do ([Call.Step]) and to
// hold ([Call.Hold]), and what the limits do not allow is an error that it
// returns. That is enforced for every function as the conformance suite enforces
// it, and a function that does not come back in time is left behind, told of
// and not called again until it has ended. A skill from somewhere else is never
// a function here.
package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
)

// Func is a tool. The result is written as JSON. Its error is a fault of
// package sandbox, or becomes one of kind Trap: what a tool has against
// arguments is a fault of kind Args.
type Func func(c *Call) (any, error)

// Call is one use of a tool, by which it reads and is metered. It is used from
// one goroutine.
type Call struct {
	Args json.RawMessage // one object
	Log  io.Writer       // for people

	ctx    context.Context
	name   string
	assets []sandbox.Asset
	limits modules.Effective
	steps  int64
	held   int64
	peak   int64
}

// between is how many steps pass between two looks at the clock.
const between = 1 << 10

// Step says that about n simple operations are to be done. An error ends the
// call.
func (c *Call) Step(n int64) error {
	before := c.steps / between
	if c.steps += n; c.steps/between != before || n >= between {
		return c.ended()
	}
	return nil
}

// Hold says that n more bytes are to be held, or, where n is negative, that so
// many are let go. It is called before they are allocated.
func (c *Call) Hold(n int64) error {
	if n > 0 && n > c.limits.MemBytes-c.held {
		return sandbox.Faultf(sandbox.Memory, "%s asked for more than its %d bytes of memory", c.name, c.limits.MemBytes)
	}
	c.held = max(0, c.held+n)
	c.peak = max(c.peak, c.held)
	return c.ended()
}

func (c *Call) ended() error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return nil
}

// Asset opens what the arguments call #NAME, after its size was held.
func (c *Call) Asset(name string) (*io.SectionReader, error) {
	for _, a := range c.assets {
		if a.Name == name {
			return io.NewSectionReader(a.Data, 0, a.Size), c.Hold(a.Size)
		}
	}
	return nil, sandbox.Faultf(sandbox.Args, "there is no #%s", name)
}

// Executor is a sandbox.Executor of the functions in it. Its zero value has
// none.
type Executor struct {
	Funcs map[string]Func
	Grace time.Duration // for a function to notice its end; 0: 20 ms
}

// Prepare implements sandbox.Executor.
func (e Executor) Prepare(_ context.Context, p sandbox.Program) (sandbox.Guest, error) {
	l, err := sandbox.Check(p)
	if err != nil {
		return nil, err
	}
	if err := sandbox.OneThread("builtin", l); err != nil {
		return nil, err
	}
	if err := sandbox.None("builtin", p.Allow); err != nil {
		return nil, err
	}
	f := e.Funcs[p.Name]
	if f == nil {
		return nil, sandbox.Refuse("mm has no tool %q built in", p.Name)
	}
	if e.Grace == 0 {
		e.Grace = 20 * time.Millisecond
	}
	return &guest{name: p.Name, f: f, limits: l, grace: e.Grace}, nil
}

type guest struct {
	name   string
	f      Func
	limits modules.Effective
	grace  time.Duration

	calls sync.WaitGroup
	mu    sync.Mutex
	stuck int // calls that did not end in time
}

// Close waits for the functions that were left behind.
func (g *guest) Close() error {
	g.calls.Wait()
	return nil
}

// done is what a function gave.
type done struct {
	out []byte
	err error
}

// Call implements sandbox.Guest.
func (g *guest) Call(ctx context.Context, in sandbox.Call) (sandbox.Reply, error) {
	if err := ctx.Err(); err != nil {
		return sandbox.Reply{}, err
	}
	if err := sandbox.Assets(in.Assets); err != nil {
		return sandbox.Reply{}, err
	}
	g.mu.Lock()
	stuck := g.stuck
	g.mu.Unlock()
	if stuck > 0 {
		return sandbox.Reply{}, sandbox.Faultf(sandbox.Time, "%s still works on an earlier call", g.name)
	}
	limit := time.Duration(g.limits.TimeoutMS) * time.Millisecond
	start := time.Now()
	inside, stop := context.WithTimeoutCause(ctx, limit, sandbox.Faultf(sandbox.Time, "%s took more than %v", g.name, limit))
	defer stop()
	log := sandbox.NewLog(nil)
	c := &Call{Args: in.Input, Log: log, ctx: inside, name: g.name, assets: in.Assets, limits: g.limits}
	result := make(chan done, 1)
	g.calls.Go(func() { result <- g.run(c) })
	var d done
	select {
	case d = <-result:
	case <-inside.Done():
		select {
		case d = <-result:
		case <-time.After(g.grace):
			g.leave(result)
			return sandbox.Reply{Usage: sandbox.Usage{Time: time.Since(start)}}, ended(ctx, inside)
		}
	}
	reply := sandbox.Reply{Output: d.out, Log: log.Bytes(), Usage: sandbox.Usage{Time: time.Since(start), Memory: c.peak}}
	if ctx.Err() != nil && d.err != nil {
		return reply, ctx.Err()
	}
	return reply, d.err
}

func ended(outer, inside context.Context) error {
	if outer.Err() != nil {
		return outer.Err()
	}
	return context.Cause(inside)
}

// leave notes a function that goes on by itself.
func (g *guest) leave(result <-chan done) {
	g.mu.Lock()
	g.stuck++
	g.mu.Unlock()
	g.calls.Go(func() {
		<-result
		g.mu.Lock()
		g.stuck--
		g.mu.Unlock()
	})
}

// run calls the function and writes its result.
func (g *guest) run(c *Call) (d done) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(c.Log, "%v\n%s", r, debug.Stack())
			d = done{err: sandbox.Faultf(sandbox.Trap, "%s broke: %v", g.name, r)}
		}
	}()
	value, err := g.f(c)
	var own *sandbox.Fault
	switch {
	case err == nil:
	case errors.As(err, &own), c.ctx.Err() != nil:
		return done{err: err}
	default:
		return done{err: sandbox.Faultf(sandbox.Trap, "%s: %v", g.name, err)}
	}
	out := sandbox.NewBuffer(g.limits.OutputBytes, nil)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		if out.Over() {
			return done{err: sandbox.Faultf(sandbox.Output, "%s gave more than %d bytes", g.name, g.limits.OutputBytes)}
		}
		return done{err: sandbox.Faultf(sandbox.Result, "%s gave what is no JSON: %v", g.name, err)}
	}
	return done{out: out.Bytes()}
}
