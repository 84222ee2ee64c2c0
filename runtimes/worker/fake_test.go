//go:build unix

package worker_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/worker/wire"
)

type absent struct{ runtimes.Engine }

func (absent) Probe(context.Context) (runtimes.Info, error) {
	return runtimes.Info{}, &runtimes.Unavailable{What: "libfake", Why: "it is not installed", Hint: "install it"}
}

// fake is a language model that generates 1 + the last token, and a function that returns its inputs.
type fake struct{ fault string }

func (fake) Name() string { return "fake" }
func (fake) Probe(context.Context) (runtimes.Info, error) {
	return runtimes.Info{Version: "1", Devices: []string{"cpu"}, Formats: []string{"gguf"}, License: "MIT"}, nil
}
func (fake) Can(builds.Part) error { return nil }
func (f fake) Open(_ context.Context, b runtimes.Bundle, _ runtimes.Limits) (runtimes.Model, error) {
	if f.fault == "deaf at first" {
		strike("deaf once")
	}
	if b.Part.Type == abi.Encoder {
		return echo(f), nil
	}
	return counter(f), nil
}

// Answer returns the question.
func (f fake) Answer(_ context.Context, _ string, args []byte) (any, error) {
	strike(f.fault)
	return json.RawMessage(args), nil
}

type echo struct{ fault string }

func (echo) Close() error { return nil }
func (e echo) Run(_ context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	strike(e.fault)
	return in, nil
}

type counter struct{ fault string }

func (counter) Close() error { return nil }
func (counter) Shape() runtimes.Shape {
	return runtimes.Shape{Vocab: 1 << 20, Width: 2, Context: 1 << 19}
}
func (c counter) NewSequence(context.Context, runtimes.SequenceOptions) (runtimes.Sequence, error) {
	return &count{fault: c.fault}, nil
}

type count struct {
	fault string
	ids   []int32
}

func (c *count) Len() int             { return len(c.ids) }
func (c *count) Close() error         { return nil }
func (c *count) Truncate(n int) error { c.ids = c.ids[:n]; return nil }
func (c *count) Feed(_ context.Context, in ...runtimes.Positions) error {
	for _, p := range in {
		c.ids = append(c.ids, p.Tokens...)
		for _, v := range p.Vectors {
			c.ids = append(c.ids, int32(v))
		}
		if len(p.Vectors) > 0 {
			c.ids = c.ids[:len(c.ids)-len(p.Vectors)/2]
		}
	}
	return nil
}
func (c *count) Generate(ctx context.Context, opt runtimes.Generation, emit func(int32) error) (runtimes.Stop, error) {
	for n := 0; opt.MaxTokens == 0 || n < opt.MaxTokens; n++ {
		if err := ctx.Err(); err != nil && c.fault != "deaf" {
			return "", err
		}
		if n == 3 {
			strike(c.fault)
		}
		next := c.ids[len(c.ids)-1] + 1
		if c.fault == "nonsense" {
			next = -7
		}
		if err := emit(next); err != nil {
			return "", err
		}
		c.ids = append(c.ids, next)
		if opt.MaxTokens == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return runtimes.StopLength, nil
}

// strike triggers the fault once; a file records that it happened.
func strike(fault string) {
	if mark := os.Getenv("MM_TEST_MARK"); mark != "" {
		f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return
		}
		f.Close()
	}
	switch fault {
	case "deaf once":
		time.Sleep(time.Minute)
	case "dies":
		for i := range 30 {
			fmt.Fprintln(os.Stderr, "assertion", i, "failed\x1b[31m")
		}
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "aborts":
		fmt.Fprintln(os.Stderr, "GGML_ASSERT(n > 0) failed")
		syscall.Kill(os.Getpid(), syscall.SIGABRT)
		select {}
	case "hangs":
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Minute)
	case "garbage":
		os.Stdout.WriteString("a library prints to stdout\n")
	case "half":
		os.Stdout.WriteString("MMW1\x03\x00\x00\x00")
		os.Exit(0)
	case "huge":
		b := binary.LittleEndian.AppendUint64([]byte("MMW1\x03\x00\x00\x00"), 1)
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, 2), 0xFFFF_FFF0)
		os.Stdout.Write(b)
	case "stranger":
		wire.NewWriter(os.Stdout).Write(wire.KindReply, 4711, wire.Reply{})
	}
}
