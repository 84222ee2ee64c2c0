package runner_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/engines"
	"mm-abi.org/mm/runtimes/runner"
)

// blocking is an engine whose Open waits for release and ignores its context.
type blocking struct {
	engines.Core
	entered chan struct{}
	release chan struct{}
}

func (b *blocking) Open(context.Context, runtimes.Bundle, runtimes.Limits) (runtimes.Model, error) {
	close(b.entered)
	<-b.release
	return nil, errors.New("released")
}

// A Load that waits for another one ends with its context.
func TestLoadContext(t *testing.T) {
	e := &blocking{entered: make(chan struct{}), release: make(chan struct{})}
	r, err := runner.Open(t.Context(), build(t), runner.Options{Engines: []runtimes.Engine{e}})
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan error)
	go func() { first <- r.Load(context.Background()) }()
	<-e.entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	second := make(chan error, 1)
	go func() { second <- r.Load(ctx) }()
	select {
	case err = <-second:
	case <-time.After(10 * time.Second):
		err = errors.New("still waiting")
	}
	close(e.release)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("second Load: got %v, want context.Canceled", err)
	}
	if err := <-first; err == nil {
		t.Error("first Load: no error")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Open returns no Runner with an error.
func TestOpenError(t *testing.T) {
	for name, opt := range map[string]runner.Options{
		"unknown engine":         {Engines: []runtimes.Engine{engines.Core{}}, Engine: "other"},
		"unknown engine of part": {Engines: []runtimes.Engine{engines.Core{}}, Backends: map[string]string{"enc": "other"}},
		"unknown part":           {Engines: []runtimes.Engine{engines.Core{}}, Backends: map[string]string{"other": "core"}},
	} {
		if r, err := runner.Open(t.Context(), build(t), opt); err == nil || r != nil {
			t.Errorf("%s: got %v, %v", name, r, err)
		}
	}
}
