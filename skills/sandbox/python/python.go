// Package python runs tools written in Python, by MicroPython's WebAssembly
// port in the engine of skills/sandbox/wasm.
//
// A file defines run(args), which returns the result, as in Starlark; args is
// the object of the arguments. open("/in/NAME") reads an asset, print writes
// to the log. The modules json, math, re, collections, datetime and random are
// available, as are classes, exceptions, f-strings and big integers. The clock
// counts its readings and random numbers are the same in each call, unless
// allow permits real ones.
//
// MicroPython is not part of mm. mm builds a module from its npm package
// [Package], whose bytes are pinned; the executor loads the interpreter by its
// digest. If it is not installed, Starlark runs the programs that it can
// parse, which Usage reports; others are refused.
package python

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/tetratelabs/wazero/api"

	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/wasm"
)

const maxSource = 1 << 20 // bytes of a program

// Options configures an executor.
type Options struct {
	// Interpreter returns the bytes with the SHA-256 [Digest], or fs.ErrNotExist
	// if it is not installed.
	Interpreter func(ctx context.Context) ([]byte, error)
	Engine      *wasm.Executor   // runs the interpreter
	Fallback    sandbox.Executor // runs programs if it is not installed; nil: they are refused
}

// Executor is a sandbox.Executor of Python. It is closed after its guests and
// before its engine.
type Executor struct {
	opt Options

	mu       sync.Mutex
	compiled *wasm.Interpreter
}

// New returns an executor. It loads the interpreter for the first program.
func New(opt Options) *Executor { return &Executor{opt: opt} }

// Close releases the interpreter.
func (e *Executor) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.compiled == nil {
		return nil
	}
	i := e.compiled
	e.compiled = nil
	return i.Close()
}

// Prepare implements sandbox.Executor.
func (e *Executor) Prepare(ctx context.Context, p sandbox.Program) (sandbox.Guest, error) {
	l, err := sandbox.Check(p)
	if err != nil {
		return nil, err
	}
	if err := sandbox.OneThread("python", l); err != nil {
		return nil, err
	}
	if err := sandbox.None("python", p.Allow, "clock", "random"); err != nil {
		return nil, err
	}
	if len(p.Code) > maxSource {
		return nil, sandbox.Refuse("program too large: got %d bytes, limit %d", len(p.Code), maxSource)
	}
	i, err := e.interpreter(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return e.instead(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	return i.Guest(p.Name, l, func(ctx context.Context, instance api.Module, c sandbox.Call, out, log io.Writer) error {
		m := &machine{instance: instance, name: p.Name, allow: p.Allow, files: assets(c.Assets), log: log}
		return m.run(ctx, p.Code, c.Input, out)
	})
}

// interpreter compiles MicroPython on first use.
func (e *Executor) interpreter(ctx context.Context) (*wasm.Interpreter, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.compiled != nil {
		return e.compiled, nil
	}
	if e.opt.Interpreter == nil {
		return nil, fs.ErrNotExist
	}
	code, err := e.opt.Interpreter(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading MicroPython: %w", err)
	}
	if have := sha256.Sum256(code); hex.EncodeToString(have[:]) != Digest {
		return nil, sandbox.Refuse("MicroPython: got sha256:%x, want the pinned one: install it again", have)
	}
	e.compiled, err = e.opt.Engine.Interpreter(ctx, code, imports)
	return e.compiled, err
}

// instead prepares a program without MicroPython.
func (e *Executor) instead(ctx context.Context, p sandbox.Program) (sandbox.Guest, error) {
	const hint = "MicroPython is not installed (mm skill install micropython)"
	if e.opt.Fallback == nil {
		return nil, sandbox.Refuse("%s", hint)
	}
	g, err := e.opt.Fallback.Prepare(ctx, p)
	var f *sandbox.Fault
	switch {
	case err == nil:
		return substitute{g}, nil
	case errors.As(err, &f):
		return nil, sandbox.Faultf(f.Kind, "%s, and Starlark cannot replace it: %v", hint, f)
	}
	return nil, err
}

// substitute is a guest that Starlark runs.
type substitute struct{ sandbox.Guest }

// By returns the engine that runs it.
func (substitute) By() string { return "starlark" }

// Call implements sandbox.Guest.
func (s substitute) Call(ctx context.Context, c sandbox.Call) (sandbox.Reply, error) {
	reply, err := s.Guest.Call(ctx, c)
	reply.Usage.By = "starlark, because MicroPython is not installed"
	return reply, err
}
