package experiment

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os/exec"
	"strings"
	"time"

	"mm-abi.org/mm/lab/telemetry"
)

// Function is a built-in step. It returns a function that executes a run and returns its
// output.
type Function func(ctx context.Context, with map[string]float64) (do func(context.Context) ([]byte, error), err error)

// Machine sets the options of a real run: the clock and sensors of the machine, and
// processes for commands.
func Machine(opt Options, functions map[string]Function) Options {
	if opt.Grace <= 0 {
		opt.Grace = 2 * time.Second
	}
	opt.Clock = wall{}
	opt.Sensor = telemetry.Machine{Dir: opt.Dir}
	opt.Executor = machineExecutor{functions, opt.Grace}
	return opt
}

type wall struct{}

func (wall) Now() time.Time { return time.Now() }

func (wall) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (wall) During(ctx context.Context, first time.Duration, do func(context.Context), look func() time.Duration) {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(within)
	}()
	t := time.NewTimer(first)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			next := look()
			if next < 0 {
				cancel()
				<-done
				return
			}
			t.Reset(next)
		}
	}
}

// machineExecutor executes steps on this machine.
type machineExecutor struct {
	functions map[string]Function
	grace     time.Duration
}

// Open implements Executor.
func (e machineExecutor) Open(ctx context.Context, s Step, _ int) (Work, error) {
	if len(s.Command) > 0 {
		path, err := exec.LookPath(s.Command[0])
		if err != nil {
			return nil, err
		}
		return command{path, s.Command, e.grace}, nil
	}
	f, ok := e.functions[s.Function]
	if !ok {
		return nil, fmt.Errorf("unknown function %q", s.Function)
	}
	do, err := f(ctx, s.With)
	if err != nil {
		return nil, err
	}
	return function(do), nil
}

// function is work without a process.
type function func(context.Context) ([]byte, error)

// Do implements Work.
func (f function) Do(ctx context.Context, _ int) (Output, error) {
	out, err := f(ctx)
	sum := sha256.Sum256(out)
	return Output{SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(out))}, err
}

// Close implements Work.
func (function) Close() error { return nil }

// command runs a process per run. Standard output is hashed; the end of standard error becomes part of the error.
type command struct {
	path  string
	argv  []string
	grace time.Duration
}

// Do implements Work.
func (c command) Do(ctx context.Context, _ int) (Output, error) {
	cmd := exec.CommandContext(ctx, c.path, c.argv[1:]...)
	out, stderr := &digest{sum: sha256.New()}, &tail{}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, stderr, c.grace
	grouped(cmd)
	err := cmd.Run()
	if ctx.Err() != nil || errors.Is(err, exec.ErrWaitDelay) {
		endGroup(cmd, c.grace)
	}
	o := Output{SHA256: hex.EncodeToString(out.sum.Sum(nil)), Bytes: out.n}
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		o.Code = ended.ExitCode()
		if text := strings.TrimSpace(stderr.b.String()); text != "" {
			err = fmt.Errorf("%w: %s", err, strings.ToValidUTF8(text, "?"))
		}
	}
	return o, err
}

// Close implements Work.
func (command) Close() error { return nil }

type digest struct {
	sum hash.Hash
	n   int64
}

// Write implements io.Writer.
func (d *digest) Write(b []byte) (int, error) {
	d.n += int64(len(b))
	return d.sum.Write(b)
}

// tail keeps the last maxTail bytes.
type tail struct{ b bytes.Buffer }

const maxTail = 512

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	n := len(b)
	if len(b) > maxTail {
		b = b[len(b)-maxTail:]
	}
	t.b.Write(b)
	t.b.Next(max(0, t.b.Len()-maxTail))
	return n, nil
}
