// Package worker runs engines in a child process, so that a native library that
// leaks, hangs or aborts does not affect mm.
//
// [Open] starts the program, exchanges greetings and opens one model. It returns a
// runtimes.Language or a runtimes.Function whose every call is a request over the
// child's pipes (runtimes/worker/wire). If the child dies, sends a malformed frame,
// or shows no sign of life, its pending requests fail with an error that is [ErrDied]
// and contains the last lines of its stderr; the next request starts another child,
// which is fed the history of its sequences. The child ends with its parent: its input
// ends, and on Linux the kernel kills it.
//
// [Serve] is the child's side: it serves one engine, with at most one model, until
// its input ends. Each request runs in its own goroutine, those of a sequence one
// after the other, so that cancellations are read and beats sent while the engine
// computes.
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker/wire"
)

// ErrDied reports that the child ended. The error that wraps it has the reason.
var ErrDied = errors.New("the engine's process ended")

// Options selects the program and its time limits. Only Program is required.
type Options struct {
	Program string
	Name    string // of the engine, for errors; "": the engine
	Args    []string
	Env     []string      // added to the environment of mm
	Silence time.Duration // time without a sign of life after which a busy child is killed; 0: 10 s
	Grace   time.Duration // time for a child to end a request or to exit; 0: 2 s
	Start   time.Duration // time for the greeting, and the minimum for opening a model; 0: 30 s
	Call    time.Duration // time of a call if runtimes.Limits has none; 0: 10 min
	Share   int           // minimum bytes of a request's tensors for shared memory (Linux only); 0: the measured optimum; < 0: never
}

func (o Options) filled() Options {
	for _, d := range []struct {
		at     *time.Duration
		absent time.Duration
	}{{&o.Silence, 10 * time.Second}, {&o.Grace, 2 * time.Second}, {&o.Start, 30 * time.Second}, {&o.Call, 10 * time.Minute}} {
		if *d.at == 0 {
			*d.at = d.absent
		}
	}
	if o.Name == "" {
		o.Name = "the engine"
	}
	if o.Share == 0 {
		o.Share = shareFrom
	}
	return o
}

// Probe starts the program and returns the description of its engine.
func Probe(ctx context.Context, opt Options) (runtimes.Info, error) {
	c, err := start(ctx, opt.filled())
	if err != nil {
		return runtimes.Info{}, err
	}
	return c.info, c.closeWithin(ctx)
}

// Ask starts the program, asks its engine one engine-specific question within
// Options.Call, and ends it. Args and answer are encoded as JSON.
func Ask(ctx context.Context, opt Options, name string, args, answer any) error {
	opt = opt.filled()
	c, err := start(ctx, opt)
	if err != nil {
		return err
	}
	inner, end := within(ctx, opt.Call)
	defer end()
	err = opt.mapErr(ctx, inner, opt.Call, name, c.ask(inner, name, args, answer))
	return errors.Join(err, c.close())
}

func (c *child) ask(ctx context.Context, name string, args, answer any) error {
	text, err := json.Marshal(args)
	if err != nil {
		return err
	}
	reply, _, err := c.call(ctx, wire.Request{Op: wire.OpAsk, Ask: &wire.Ask{Name: name, Args: text}}, nil, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(reply.Answer, answer); err != nil {
		return fmt.Errorf("decoding the answer to %s: %w", name, err)
	}
	return nil
}

// child is a running program.
type child struct {
	opt  Options
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *wire.Writer
	info runtimes.Info
	last lines

	shared  *shared // offered to the child; nil: none
	sharing bool    // the child accepted it

	mu      sync.Mutex
	pending map[uint64]*answer
	next    uint64
	signs   uint64 // of life: number of reads from the child
	why     error  // reason of the end; nil: alive
	gone    chan struct{}
	left    sync.WaitGroup // goroutines that wait for abandoned answers
}

// start runs the program and exchanges greetings.
func start(ctx context.Context, opt Options) (*child, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &child{opt: opt, cmd: exec.Command(opt.Program, opt.Args...), pending: make(map[uint64]*answer), gone: make(chan struct{})}
	// The last lines of an aborting library have the cause; Go's list of
	// goroutines would displace them.
	c.cmd.Env = append(append(c.cmd.Environ(), "GOTRACEBACK=none"), opt.Env...)
	c.cmd.SysProcAttr = childAttr()
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// Separate pipes, which Wait does not close: what the child wrote before its
	// end is still read.
	stdout, outEnd, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, c.in.Close())
	}
	stderr, errEnd, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, c.in.Close(), stdout.Close(), outEnd.Close())
	}
	c.cmd.Stdout, c.cmd.Stderr = outEnd, errEnd
	if opt.Share > 0 {
		if c.shared = newShared(); c.shared != nil {
			c.cmd.ExtraFiles = []*os.File{c.shared.file} // wire.SharedFile
		}
	}
	err = c.cmd.Start()
	outEnd.Close()
	errEnd.Close()
	if err != nil {
		c.shared.close()
		stdout.Close()
		stderr.Close()
		return nil, &runtimes.Unavailable{What: "the native engine", Why: err.Error(), Hint: "mm doctor lists the places where mm looks for it"}
	}
	c.out = wire.NewWriter(c.in)
	hello := wire.Hello{Version: wire.Version}
	if c.shared != nil {
		hello.Shared = sharedBytes
	}
	greeted := make(chan wire.Hello, 1)
	go c.live(stdout, stderr, greeted) // ends after the process; close waits for it
	go c.watch()
	if err := c.out.Write(wire.KindHello, 0, hello); err != nil {
		c.kill(fmt.Errorf("sending the greeting: %w", err))
	}
	timer := time.NewTimer(opt.Start)
	defer timer.Stop()
	select {
	case h := <-greeted:
		return c.accept(h)
	case <-c.gone:
		return nil, c.why
	case <-ctx.Done():
		c.kill(errors.New("canceled during the start"))
		<-c.gone
		return nil, ctx.Err()
	case <-timer.C:
		c.kill(fmt.Errorf("no greeting within %v", opt.Start))
		<-c.gone
		return nil, c.why
	}
}

// accept validates the child's greeting.
func (c *child) accept(h wire.Hello) (*child, error) {
	if h.Version == wire.Version && h.Fault == nil {
		c.info, c.sharing = h.Info, h.Shared > 0 && c.shared != nil
		return c, nil
	}
	err := h.Fault.Err()
	if h.Version != wire.Version {
		err = &runtimes.Unavailable{
			What: c.opt.Program, Why: fmt.Sprintf("protocol version mismatch: got %d, want %d", h.Version, wire.Version),
			Hint: "use mm and mm-native of the same release",
		}
	}
	c.close()
	return nil, err
}

// live reads the child's output until its process ends, and then fails the pending
// requests.
func (c *child) live(stdout, stderr *os.File, greeted chan<- wire.Hello) {
	var readers sync.WaitGroup
	readers.Go(func() { c.last.read(stderr) })
	readers.Go(func() {
		if err := c.listen(stdout, greeted); err != nil {
			c.kill(err)
			io.Copy(io.Discard, stdout)
		}
	})
	ended := c.cmd.Wait()
	if ended == nil {
		ended = errors.New("exited")
	}
	// A process that the child started may hold its outputs open.
	orphans := time.AfterFunc(c.opt.Grace, func() {
		c.end(ended)
		killGroup(c.cmd.Process.Pid)
		stdout.Close()
		stderr.Close()
	})
	readers.Wait()
	orphans.Stop()
	stdout.Close()
	stderr.Close()
	c.end(ended)
	c.mu.Lock()
	if !errors.Is(c.why, runtimes.ErrClosed) {
		c.why = &died{program: c.opt.Program, why: c.why, lines: c.last.lines()}
	}
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	c.in.Close()
	c.shared.close()
	for _, a := range pending {
		a.end(c.why)
	}
	close(c.gone)
}

// listen passes frames to the requests that wait for them.
func (c *child) listen(pipe io.Reader, greeted chan<- wire.Hello) error {
	accept := false
	r := &alive{pipe, c}
	for {
		f, err := wire.Read(r, 0)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading from the child: %w", err)
		}
		c.mu.Lock()
		a := c.pending[f.ID]
		c.mu.Unlock()
		switch {
		case !accept:
			var h wire.Hello
			if f.Kind != wire.KindHello {
				return fmt.Errorf("frame kind %d, want a greeting", f.Kind)
			}
			if err := f.Decode(&h); err != nil {
				return err
			}
			accept = true
			greeted <- h
		case f.Kind == wire.KindBeat:
		case (f.Kind == wire.KindToken || f.Kind == wire.KindReply || f.Kind == wire.KindRan) && a != nil:
			a.put(f)
		default:
			return fmt.Errorf("unexpected frame of kind %d", f.Kind)
		}
	}
}

// alive counts reads from a child as signs of life: during a large frame the child
// sends no beat.
type alive struct {
	io.Reader
	c *child
}

// Read implements io.Reader.
func (a *alive) Read(b []byte) (int, error) {
	n, err := a.Reader.Read(b)
	a.c.mu.Lock()
	a.c.signs++
	a.c.mu.Unlock()
	return n, err
}

// watch kills a busy child without a sign of life. It counts its own ticks instead of
// time, so that a stopped and continued mm does not take its own pause for the child's.
func (c *child) watch() {
	const ticks = 10
	tick := time.NewTicker(c.opt.Silence / ticks)
	defer tick.Stop()
	var seen uint64
	for quiet := 0; ; {
		select {
		case <-c.gone:
			return
		case <-tick.C:
		}
		c.mu.Lock()
		quiet++
		if c.signs != seen || len(c.pending) == 0 {
			seen, quiet = c.signs, 0
		}
		c.mu.Unlock()
		if quiet > ticks {
			c.kill(fmt.Errorf("no sign of life for %v", c.opt.Silence))
			return
		}
	}
}

// end records the reason of the end; the first one is reported.
func (c *child) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		c.why = why
	}
}

// kill kills the child and its group.
func (c *child) kill(why error) {
	c.end(why)
	if c.cmd.Process.Kill() == nil { // otherwise it ended, and its id may be reused
		killGroup(c.cmd.Process.Pid)
	}
}

// close lets the child exit, and kills it after Options.Grace.
func (c *child) close() error {
	c.end(runtimes.ErrClosed)
	c.in.Close()
	timer := time.AfterFunc(c.opt.Grace, func() { c.kill(nil) })
	defer timer.Stop()
	<-c.gone
	c.left.Wait()
	return nil
}

// closeWithin is close that kills the child when ctx ends.
func (c *child) closeWithin(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { c.kill(ctx.Err()) })()
	return c.close()
}

// dead reports whether the child has ended or is ending.
func (c *child) dead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why != nil
}

// died is the reason why a child ended.
type died struct {
	program string
	why     error
	lines   []string
}

func (d *died) Error() string {
	text := fmt.Sprintf("%v: %v", ErrDied, d.why)
	if len(d.lines) > 0 {
		text += "; its last lines:\n  " + strings.Join(d.lines, "\n  ")
	}
	return text
}

func (d *died) Unwrap() []error { return []error{ErrDied, d.why} }
