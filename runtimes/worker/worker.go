// Package worker runs engines in a child process: native libraries may leak,
// hang or abort there, and mm lives on.
//
// [Open] starts the program, greets it and has it open one model. What it
// returns is a runtimes.Language or a runtimes.Function whose every call is a
// request over the child's pipes (runtimes/worker/wire). A child that dies,
// sends what is no frame, or gives no sign of life ends the requests under way
// with an error that is [ErrDied] and holds the last lines it wrote; the next
// request starts another child, which is fed again what its sequences held.
// The child ends with its parent: its input ends, and on Linux it is killed.
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

// ErrDied says that the child is gone. The error that wraps it says why.
var ErrDied = errors.New("the engine's process ended")

// Options says which program to run and how long to be patient with it. All
// but Program may be left out.
type Options struct {
	Program string
	Name    string // of the engine, for errors; "": the engine
	Args    []string
	Env     []string      // added to that of mm
	Silence time.Duration // without a sign of life before a child that has work is killed; 0: 10 s
	Grace   time.Duration // for a child to end a request or itself; 0: 2 s
	Start   time.Duration // for a child to greet, and at least to open a model; 0: 30 s
	Call    time.Duration // for a call, where runtimes.Limits say nothing of it; 0: 10 min
	Share   int           // bytes of a request's tensors from which they go through shared memory, on Linux; 0: what was measured to pay; < 0: never
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

// Probe starts the program and gives what its engine says of itself.
func Probe(ctx context.Context, opt Options) (runtimes.Info, error) {
	c, err := start(ctx, opt.filled())
	if err != nil {
		return runtimes.Info{}, err
	}
	return c.info, c.close()
}

// Ask starts the program, has its engine answer one question of its own, within
// Options.Call, and ends it. Args and answer are JSON.
func Ask(ctx context.Context, opt Options, name string, args, answer any) error {
	opt = opt.filled()
	c, err := start(ctx, opt)
	if err != nil {
		return err
	}
	inner, end := within(ctx, opt.Call)
	defer end()
	err = opt.told(ctx, inner, opt.Call, name, c.ask(inner, name, args, answer))
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
		return fmt.Errorf("the answer to %s: %w", name, err)
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

	shared *shared // nil: there is none

	mu      sync.Mutex
	pending map[uint64]*answer
	next    uint64
	signs   uint64 // of life: pieces that have come, of whatever frame
	why     error  // it ended, or is made to
	gone    chan struct{}
	left    sync.WaitGroup // what waits for answers that nobody hears
}

// start runs the program and exchanges greetings.
func start(ctx context.Context, opt Options) (*child, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &child{opt: opt, cmd: exec.Command(opt.Program, opt.Args...), pending: make(map[uint64]*answer), gone: make(chan struct{})}
	// A library that aborts says why; Go's list of goroutines would push that
	// out of the last lines.
	c.cmd.Env = append(append(c.cmd.Environ(), "GOTRACEBACK=none"), opt.Env...)
	c.cmd.SysProcAttr = withParent()
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if opt.Share > 0 {
		if c.shared = newShared(); c.shared != nil {
			c.cmd.ExtraFiles = []*os.File{c.shared.file} // wire.SharedFile
		}
	}
	if err := c.cmd.Start(); err != nil {
		c.shared.close()
		return nil, &runtimes.Unavailable{What: "the native engine", Why: err.Error(), Hint: "mm doctor says where mm looks for it"}
	}
	c.out = wire.NewWriter(c.in)
	hello := wire.Hello{Version: wire.Version}
	if c.shared != nil {
		hello.Shared = sharedBytes
	}
	greeted := make(chan wire.Hello, 1)
	go c.live(stdout, stderr, greeted) // ends with the process, which close waits for
	go c.watch()
	if err := c.out.Write(wire.KindHello, 0, hello); err != nil {
		c.kill(fmt.Errorf("it takes no greeting: %w", err))
	}
	timer := time.NewTimer(opt.Start)
	defer timer.Stop()
	select {
	case h := <-greeted:
		return c.met(h)
	case <-c.gone:
		return nil, c.why
	case <-ctx.Done():
		c.kill(errors.New("it was not waited for"))
		<-c.gone
		return nil, ctx.Err()
	case <-timer.C:
		c.kill(fmt.Errorf("no greeting within %v", opt.Start))
		<-c.gone
		return nil, c.why
	}
}

// met judges the child's greeting.
func (c *child) met(h wire.Hello) (*child, error) {
	if h.Version == wire.Version && h.Fault == nil {
		c.info = h.Info
		if h.Shared == 0 && c.shared != nil { // the child cannot
			c.shared.close()
			c.shared = nil
		}
		return c, nil
	}
	err := h.Fault.Err()
	if h.Version != wire.Version {
		err = &runtimes.Unavailable{
			What: c.opt.Program, Why: fmt.Sprintf("it speaks version %d of the protocol, mm speaks version %d", h.Version, wire.Version),
			Hint: "take mm and mm-native from one release",
		}
	}
	c.close()
	return nil, err
}

// live reads what the child says until it ends, and then tells everybody.
func (c *child) live(stdout, stderr io.Reader, greeted chan<- wire.Hello) {
	var logs sync.WaitGroup
	logs.Go(func() { c.last.read(stderr) })
	err := c.listen(stdout, greeted)
	if err != nil {
		c.kill(err)
		io.Copy(io.Discard, stdout)
	}
	logs.Wait()
	ended := c.cmd.Wait()
	c.mu.Lock()
	if c.why == nil {
		if ended == nil {
			ended = errors.New("it left")
		}
		c.why = ended
	}
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

// listen hands frames to those who wait for them.
func (c *child) listen(pipe io.Reader, greeted chan<- wire.Hello) error {
	met := false
	r := &alive{pipe, c}
	for {
		f, err := wire.Read(r, 0)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it sent what is not understood: %w", err)
		}
		c.mu.Lock()
		a := c.pending[f.ID]
		c.mu.Unlock()
		switch {
		case !met:
			var h wire.Hello
			if f.Kind != wire.KindHello {
				return fmt.Errorf("it sent a frame of kind %d for a greeting", f.Kind)
			}
			if err := f.Decode(&h); err != nil {
				return err
			}
			met = true
			greeted <- h
		case f.Kind == wire.KindBeat:
		case (f.Kind == wire.KindToken || f.Kind == wire.KindReply || f.Kind == wire.KindRan) && a != nil:
			a.put(f)
		default:
			return fmt.Errorf("it sent a frame of kind %d that nobody waits for", f.Kind)
		}
	}
}

// alive counts what comes of a child: a large frame takes its time, and no Beat
// comes in its middle.
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

// watch kills a child that has work and gives no sign of life. It counts its
// own ticks and not the time, so that a mm that was stopped and continued does
// not take its own silence for the child's.
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
			c.kill(fmt.Errorf("it gave no sign of life for %v", c.opt.Silence))
			return
		}
	}
}

// kill ends the child; the first reason given is the one that is told.
func (c *child) kill(why error) {
	c.mu.Lock()
	if c.why == nil {
		c.why = why
	}
	c.mu.Unlock()
	c.cmd.Process.Kill() // an error says that it is gone
}

// close lets the child end by itself, and makes it after a while.
func (c *child) close() error {
	c.mu.Lock()
	if c.why == nil {
		c.why = runtimes.ErrClosed
	}
	c.mu.Unlock()
	c.in.Close()
	timer := time.AfterFunc(c.opt.Grace, func() { c.cmd.Process.Kill() })
	defer timer.Stop()
	<-c.gone
	c.left.Wait()
	return nil
}

// dead says whether the child is gone or going.
func (c *child) dead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why != nil
}

// died is why a child is gone.
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
