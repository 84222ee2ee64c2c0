// Package python runs tools written in Python, by MicroPython's WebAssembly
// port in the engine of skills/sandbox/wasm.
//
// A file defines run(args) and what it gives is the result, as in Starlark;
// args is the object of the arguments. open("/in/NAME") reads an asset, print
// writes for people. json, math, re, collections, datetime and random are
// there; classes, exceptions, f-strings and whole numbers of any size as well.
// The clock counts its readings and random numbers are the same in each call,
// unless allow says otherwise.
//
// MicroPython is not part of mm. [Package] makes a module of its npm package,
// whose bytes are pinned; the executor asks for the interpreter by its digest
// and takes no other bytes. Where it is not installed a program that Starlark
// can read is run by Starlark, and its Usage says so; any other is refused.
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

// Options of an executor.
type Options struct {
	// Interpreter gives the bytes whose SHA-256 is [Digest]. fs.ErrNotExist is
	// that it is not installed.
	Interpreter func(ctx context.Context) ([]byte, error)
	Engine      *wasm.Executor   // what runs it
	Fallback    sandbox.Executor // of programs where it is not installed; nil: they are refused
}

// Executor is a sandbox.Executor of Python. It is closed after its guests and
// before its engine.
type Executor struct {
	opt Options

	mu   sync.Mutex
	made *wasm.Interpreter
}

// New makes an executor. The interpreter is not asked for before the first
// program is.
func New(opt Options) *Executor { return &Executor{opt: opt} }

// Close frees the interpreter.
func (e *Executor) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.made == nil {
		return nil
	}
	i := e.made
	e.made = nil
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
		return nil, sandbox.Refuse("a program of %d bytes is over the limit of %d", len(p.Code), maxSource)
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

// interpreter compiles MicroPython when it is first needed.
func (e *Executor) interpreter(ctx context.Context) (*wasm.Interpreter, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.made != nil {
		return e.made, nil
	}
	if e.opt.Interpreter == nil {
		return nil, fs.ErrNotExist
	}
	code, err := e.opt.Interpreter(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading MicroPython: %w", err)
	}
	if have := sha256.Sum256(code); hex.EncodeToString(have[:]) != Digest {
		return nil, sandbox.Refuse("MicroPython is sha256:%x here, which is not the one that mm knows: install it again", have)
	}
	e.made, err = e.opt.Engine.Interpreter(ctx, code, imports)
	return e.made, err
}

// instead readies a program without MicroPython.
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
		return nil, sandbox.Faultf(f.Kind, "%s, and Starlark cannot stand in for it: %v", hint, f)
	}
	return nil, err
}

// substitute is a guest that Starlark runs.
type substitute struct{ sandbox.Guest }

// By is the engine that runs it.
func (substitute) By() string { return "starlark" }

// Call implements sandbox.Guest.
func (s substitute) Call(ctx context.Context, c sandbox.Call) (sandbox.Reply, error) {
	reply, err := s.Guest.Call(ctx, c)
	reply.Usage.By = "starlark, for MicroPython is not installed"
	return reply, err
}
