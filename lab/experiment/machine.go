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

// Function is a step that mm does itself. It makes ready and returns what a run
// does; the bytes are what the run gave.
type Function func(ctx context.Context, with map[string]float64) (do func(context.Context) ([]byte, error), err error)

// Machine sets the options of a real run: the machine's clock and sensors,
// processes for commands.
func Machine(opt Options, functions map[string]Function) Options {
	opt.Clock = wall{}
	opt.Sensor = telemetry.Machine{Dir: opt.Dir}
	opt.Executor = doer(functions)
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

// doer is the executor of this machine.
type doer map[string]Function

// Open implements Executor.
func (d doer) Open(ctx context.Context, s Step, _ int) (Work, error) {
	if len(s.Command) > 0 {
		path, err := exec.LookPath(s.Command[0])
		if err != nil {
			return nil, err
		}
		return command{path, s.Command}, nil
	}
	f, ok := d[s.Function]
	if !ok {
		return nil, fmt.Errorf("there is no function %q", s.Function)
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

// command is a process a run. What it writes to standard output is hashed and
// not kept; of standard error the end is, where it fails.
type command struct {
	path string
	argv []string
}

// killGrace is how long a process has to end when it is asked to, and how long its
// children may hold its output after its end.
const killGrace = 2 * time.Second

// Do implements Work.
func (c command) Do(ctx context.Context, _ int) (Output, error) {
	cmd := exec.CommandContext(ctx, c.path, c.argv[1:]...)
	out, said := &digest{sum: sha256.New()}, &tail{}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, said, killGrace
	grouped(cmd)
	err := cmd.Run()
	if ctx.Err() != nil || errors.Is(err, exec.ErrWaitDelay) {
		endGroup(cmd, killGrace)
	}
	o := Output{SHA256: hex.EncodeToString(out.sum.Sum(nil)), Bytes: out.n}
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		o.Code = ended.ExitCode()
		if text := strings.TrimSpace(said.b.String()); text != "" {
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

// tail keeps the last bytes.
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
