package runtimetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// twice is an engine of one function that doubles every byte. Each fault violates one requirement.
type twice struct{ fault string }

func (twice) Name() string { return "twice" }

func (twice) Probe(context.Context) (runtimes.Info, error) {
	return runtimes.Info{Version: "1", Devices: []string{"cpu"}, Formats: []string{"none"}, License: "Apache-2.0"}, nil
}

func (twice) Can(p builds.Part) error {
	if p.Files.Entry("none") == "" {
		return &runtimes.Unavailable{What: p.ID(), Why: "no file"}
	}
	return nil
}

func (e twice) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	if err := errors.Join(ctx.Err(), l.Check(), e.Can(b.Part)); err != nil && e.fault != "open" {
		return nil, err
	}
	if l.Memory == 1 || l.Device != "" {
		return nil, &runtimes.Unavailable{What: "twice", Why: "limits"}
	}
	return &doubler{fault: e.fault}, nil
}

type doubler struct {
	fault  string
	closed atomic.Bool
	mu     sync.Mutex // one run at a time, so that a fault is not a data race
	last   runtimes.Tensor
	runs   int
}

func (d *doubler) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	if len(in["x"].Data) > long {
		return nil, d.work(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() && d.fault != "closed" {
		if d.fault == "broken by Close" {
			return nil, errors.New("a broken pipe")
		}
		return nil, runtimes.ErrClosed
	}
	if err := ctx.Err(); err != nil && d.fault != "cancel" {
		return nil, err
	}
	x, ok := in["x"]
	if !ok {
		if d.fault == "nameless" {
			return nil, errors.New("an input is missing")
		}
		return nil, errors.New("input x is missing")
	}
	for name := range in {
		if name != "x" && d.fault != "unknown" {
			return nil, fmt.Errorf("input %s is not known", name)
		}
	}
	if err := x.Check(); d.fault != "unchecked" && (err != nil || x.Type != runtimes.Float32 || len(x.Shape) != 2) {
		return nil, fmt.Errorf("input x is %s %v: %w", x.Type, x.Shape, err)
	}
	y := runtimes.Tensor{Type: x.Type, Shape: slices.Clone(x.Shape), Data: slices.Clone(x.Data)}
	d.runs++
	switch {
	case d.fault == "random" && len(y.Data) > 0:
		y.Data[0] = byte(d.runs)
	case d.fault == "shared":
		if d.last.Data == nil {
			d.last = y
		}
		y = d.last
	case d.fault == "changes":
		x.Data[0]++
	case d.fault == "first of a batch" && x.Shape[0] == 2:
		clear(y.Data[len(y.Data)/2:])
	case d.fault == "batch of one" && x.Shape[0] == 2:
		y.Shape[0], y.Data = 1, y.Data[:len(y.Data)/2]
	case d.fault == "bad output":
		y.Shape = []int64{99}
	}
	return map[string]runtimes.Tensor{"y": y}, nil
}

// long is the least length of slow inputs.
const long = 64

// work takes a second unless it respects ctx.
func (d *doubler) work(ctx context.Context) error {
	if d.fault == "deaf" {
		time.Sleep(300 * time.Millisecond)
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		if d.fault == "never again" {
			d.closed.Store(true)
		}
		return ctx.Err()
	case <-time.After(time.Second):
		return nil
	}
}

func (d *doubler) Close() error {
	if d.closed.Swap(true) && d.fault == "close" {
		return errors.New("closed twice")
	}
	return nil
}

func subject(fault string) runtimetest.Function {
	return runtimetest.Function{
		Engine: twice{fault}, Bundle: runtimes.Bundle{Part: builds.Part{Name: "f", Version: "1.0.0", Files: builds.Formats{"none": {"x"}}}},
		In:   map[string]runtimes.Tensor{"x": {Type: runtimes.Float32, Shape: []int64{1, 2}, Data: []byte{1, 0, 128, 63, 2, 0, 0, 64}}}, // 1, 2
		Long: map[string]runtimes.Tensor{"x": {Type: runtimes.Float32, Shape: []int64{1, long}, Data: make([]byte, 4*long)}},
	}
}

func TestFunction(t *testing.T) { runtimetest.Run(t, subject("").Cases()) }

// The suite detects each fault.
func TestFaultsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: the suite of engines for each fault")
	}
	for fault, want := range map[string]string{
		"open": "negative threads", "closed": "closed", "cancel": "cancelled", "nameless": "inputs that do not fit",
		"unknown": "inputs that do not fit", "unchecked": "inputs that do not fit", "random": "the same twice",
		"shared": "results are the caller's", "changes": "the same twice", "bad output": "the same twice", "close": "Close twice",
		"first of a batch": "a batch of two", "batch of one": "a batch of two", "deaf": "cancelled at work", "never again": "cancelled at work",
		"broken by Close": "closed at work",
	} {
		var found []string
		for _, c := range subject(fault).Cases() {
			if c.Run(t.Context()) != nil {
				found = append(found, c.Name)
			}
		}
		if !slices.Contains(found, want) {
			t.Errorf("%s: the cases %q noticed, want %q among them", fault, found, want)
		}
	}
}
