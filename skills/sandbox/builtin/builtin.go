// Package builtin runs tools that are part of mm: Go functions under the
// contract of every other guest.
//
// A function of the same program cannot be isolated, so it is metered: it
// announces its work ([Call.Step]) and its memory ([Call.Hold]) and returns
// the error that it gets when a limit is exceeded. The conformance suite
// checks this for every function. A function that does not return in time is
// abandoned, and not called again until it has ended. A skill from elsewhere
// is never a function here.
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

// Func is a tool. Its result is encoded as JSON. An error that is not a
// sandbox.Fault becomes one of kind Trap; invalid arguments are faults of kind
// Args.
type Func func(c *Call) (any, error)

// Call is one call of a tool, which reads and is metered through it. It is
// used from one goroutine.
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

// between is the number of steps between two checks of the context.
const between = 1 << 10

// Step announces about n simple operations. An error ends the call.
func (c *Call) Step(n int64) error {
	before := c.steps / between
	if c.steps += n; c.steps/between != before || n >= between {
		return c.endCause()
	}
	return nil
}

// Hold announces n bytes before they are allocated, or releases them if n is
// negative.
func (c *Call) Hold(n int64) error {
	if n > 0 && n > c.limits.MemBytes-c.held {
		return sandbox.Faultf(sandbox.Memory, "%s exceeded its memory limit of %d bytes", c.name, c.limits.MemBytes)
	}
	c.held = max(0, c.held+n)
	c.peak = max(c.peak, c.held)
	return c.endCause()
}

func (c *Call) endCause() error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return nil
}

// Asset opens the asset that the arguments call #NAME and charges its size.
func (c *Call) Asset(name string) (*io.SectionReader, error) {
	for _, a := range c.assets {
		if a.Name == name {
			return io.NewSectionReader(a.Data, 0, a.Size), c.Hold(a.Size)
		}
	}
	return nil, sandbox.Faultf(sandbox.Args, "unknown asset #%s", name)
}

// Executor is a sandbox.Executor of Funcs.
type Executor struct {
	Funcs map[string]Func
	Grace time.Duration // for a function to notice its end; default 20 ms
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
	stuck int // calls still running after their end
}

// Close waits for abandoned functions.
func (g *guest) Close() error {
	g.calls.Wait()
	return nil
}

// outcome is the outcome of a function.
type outcome struct {
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
		return sandbox.Reply{}, sandbox.Faultf(sandbox.Time, "%s is still running an earlier call", g.name)
	}
	limit := time.Duration(g.limits.TimeoutMS) * time.Millisecond
	start := time.Now()
	inside, stop := context.WithTimeoutCause(ctx, limit, sandbox.Faultf(sandbox.Time, "%s took more than %v", g.name, limit))
	defer stop()
	log := sandbox.NewLog(nil)
	c := &Call{Args: in.Input, Log: log, ctx: inside, name: g.name, assets: in.Assets, limits: g.limits}
	result := make(chan outcome, 1)
	g.calls.Go(func() { result <- g.run(c) })
	var d outcome
	select {
	case d = <-result:
	case <-inside.Done():
		select {
		case d = <-result:
		case <-time.After(g.grace):
			g.abandon(result)
			return sandbox.Reply{Usage: sandbox.Usage{Time: time.Since(start)}}, endCause(ctx, inside)
		}
	}
	reply := sandbox.Reply{Output: d.out, Log: log.Bytes(), Usage: sandbox.Usage{Time: time.Since(start), Memory: c.peak}}
	if ctx.Err() != nil && d.err != nil {
		return reply, ctx.Err()
	}
	return reply, d.err
}

func endCause(outer, inside context.Context) error {
	if outer.Err() != nil {
		return outer.Err()
	}
	return context.Cause(inside)
}

// abandon records a function that keeps running.
func (g *guest) abandon(result <-chan outcome) {
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

// run calls the function and encodes its result.
func (g *guest) run(c *Call) (d outcome) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(c.Log, "%v\n%s", r, debug.Stack())
			d = outcome{err: sandbox.Faultf(sandbox.Trap, "%s panicked: %v", g.name, r)}
		}
	}()
	value, err := g.f(c)
	var fault *sandbox.Fault
	switch {
	case err == nil:
	case errors.As(err, &fault), c.ctx.Err() != nil:
		return outcome{err: err}
	default:
		return outcome{err: sandbox.Faultf(sandbox.Trap, "%s: %v", g.name, err)}
	}
	out := sandbox.NewBuffer(g.limits.OutputBytes, nil)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		if out.Over() {
			return outcome{err: sandbox.Faultf(sandbox.Output, "%s wrote more than %d bytes", g.name, g.limits.OutputBytes)}
		}
		return outcome{err: sandbox.Faultf(sandbox.Result, "result of %s does not encode as JSON: %v", g.name, err)}
	}
	return outcome{out: out.Bytes()}
}
