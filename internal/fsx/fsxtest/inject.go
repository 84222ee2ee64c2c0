// Package fsxtest injects failures under code that writes through package fsx: a call fails
// ([Fault]), the process dies between two calls ([Fault] with Crash), or a power failure
// loses what was not synced ([Recorder]).
//
// A test runs its operation once for each call number until the fault no longer fires
// ([Sweep]), reopens what is on disk, and checks that it is consistent.
package fsxtest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"mm-abi.org/mm/internal/fsx"
)

// ErrInjected is the error of a call that [Fault] refuses by default.
var ErrInjected = errors.New("injected fault")

// ErrCrashed is the error of every call at and after a crash.
var ErrCrashed = errors.New("injected crash")

// Fault makes the Nth call fail, counted from 1.
type Fault struct {
	N     int   // number of the call; if zero, only count
	Err   error // error of the call; if nil, ErrInjected
	Short bool  // if call N is a write, write half of the data first
	Crash bool  // call N and all after it do nothing and return ErrCrashed

	mu    sync.Mutex
	calls int
	op    string
}

// Hook is the [fsx.Hook] to set.
func (f *Fault) Hook(op *fsx.Op, do func() error) error {
	f.mu.Lock()
	f.calls++
	n := f.calls
	if n == f.N {
		f.op = fmt.Sprintf("%s %s%s", op.Kind, op.Name, op.To)
	}
	f.mu.Unlock()
	if f.N == 0 || n < f.N || n > f.N && !f.Crash {
		return do()
	}
	err := f.Err
	if f.Crash {
		err = ErrCrashed
	} else if err == nil {
		err = ErrInjected
	}
	if n == f.N && f.Short && op.Kind == fsx.OpWrite {
		op.Data = op.Data[:len(op.Data)/2]
		return errors.Join(err, do())
	}
	return err
}

// Calls returns the number of calls.
func (f *Fault) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// Fired reports whether call N happened, with its operation and name.
func (f *Fault) Fired() (op string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.op, f.op != ""
}

// Sweep runs try with a fault like kind at call 1, 2, 3 … until it no longer fires, and
// returns the number of points. In each round try must create a new folder, act through the
// hook, and check the result.
func Sweep(t *testing.T, kind *Fault, try func(t *testing.T, f *Fault)) int {
	t.Helper()
	for n := 1; ; n++ {
		f := &Fault{N: n, Err: kind.Err, Short: kind.Short, Crash: kind.Crash}
		try(t, f)
		op, fired := f.Fired()
		if t.Failed() {
			t.Fatalf("at call %d: %s", n, op)
		}
		if !fired {
			return n - 1
		}
	}
}
