// Package starlark runs tools written in Starlark, a small dialect of Python,
// in mm's own process and without a compiler.
//
// A file defines run(args), which returns the result; args is the object of
// the arguments. math and json are available, read(name) returns an asset, and
// print writes to the log. Recursion, while loops and sets are allowed; load
// is not.
//
// The interpreter counts steps and can be stopped between two of them, but it
// has no memory limit and a guest can make a single step arbitrarily long. The
// program is therefore rewritten before it is compiled: everything that
// allocates more than a word, or compares, prints or hashes values, becomes a
// call of a function that first charges its cost (see meter). Charges are
// never refunded: the memory limit of a Starlark guest bounds what a call
// allocates in total.
package starlark

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	starlarkjson "go.starlark.net/lib/json"
	starlarkmath "go.starlark.net/lib/math"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
)

const (
	maxSource  = 128 << 10 // bytes
	maxNesting = 100       // of brackets
	maxDepth   = 200       // of calls
	maxMemory  = 1 << 30   // largest memory limit: the interpreter's stack grows with nested values
	maxSteps   = 1 << 32
)

// entry is the function that a tool defines.
const entry = "run"

var options = &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}

// Executor is a sandbox.Executor of Starlark.
type Executor struct{}

// Prepare implements sandbox.Executor.
func (Executor) Prepare(_ context.Context, p sandbox.Program) (sandbox.Guest, error) {
	l, err := sandbox.Check(p)
	if err != nil {
		return nil, err
	}
	if err := sandbox.OneThread("starlark", l); err != nil {
		return nil, err
	}
	if err := sandbox.None("starlark", p.Allow); err != nil {
		return nil, err
	}
	if l.MemBytes > maxMemory {
		return nil, sandbox.Refuse("starlark: memory limit of %d bytes, want at most %d", l.MemBytes, maxMemory)
	}
	program, err := compile(p.Name, p.Code)
	if err != nil {
		return nil, err
	}
	return &guest{name: p.Name, program: program, limits: l}, nil
}

// compile parses, rewrites and compiles a file.
func compile(name string, code []byte) (*starlark.Program, error) {
	if len(code) > maxSource {
		return nil, sandbox.Refuse("program too large: got %d bytes, limit %d", len(code), maxSource)
	}
	if n := nesting(code); n > maxNesting {
		return nil, sandbox.Refuse("brackets nested %d deep, limit %d", n, maxNesting)
	}
	file, err := options.Parse(name+".star", code, 0)
	if err != nil {
		return nil, sandbox.Refuse("%v", err)
	}
	if err := rewrite(file); err != nil {
		return nil, err
	}
	program, err := starlark.FileProgram(file, func(name string) bool { return predeclared[name] || strings.HasPrefix(name, hidden) })
	if err != nil {
		return nil, sandbox.Refuse("%v", err)
	}
	return program, nil
}

// nesting returns the depth of brackets, including those in strings and
// comments: the parser recurses for each.
func nesting(code []byte) int {
	depth, most := 0, 0
	for _, c := range code {
		switch c {
		case '(', '[', '{':
			depth++
			most = max(most, depth)
		case ')', ']', '}':
			depth = max(0, depth-1)
		}
	}
	return most
}

type guest struct {
	name    string
	program *starlark.Program
	limits  modules.Effective
}

// Close implements sandbox.Guest.
func (g *guest) Close() error { return nil }

// Call implements sandbox.Guest.
func (g *guest) Call(ctx context.Context, c sandbox.Call) (reply sandbox.Reply, err error) {
	if err := ctx.Err(); err != nil {
		return reply, err
	}
	if err := sandbox.Assets(c.Assets); err != nil {
		return reply, err
	}
	start := time.Now()
	limit := time.Duration(g.limits.TimeoutMS) * time.Millisecond
	inside, stop := context.WithTimeoutCause(ctx, limit, sandbox.Faultf(sandbox.Time, "%s took more than %v", g.name, limit))
	defer stop()
	log := sandbox.NewLog(nil)
	thread := newThread(g.name, log)
	m := &meter{ctx: inside, name: g.name, limit: g.limits.MemBytes, assets: c.Assets}
	defer context.AfterFunc(inside, func() { thread.Cancel("ended") })()
	defer func() {
		reply.Log, reply.Usage = log.Bytes(), sandbox.Usage{Time: time.Since(start), Memory: m.used}
		if r := recover(); r != nil {
			err = sandbox.Faultf(sandbox.Trap, "%s crashed: %v", g.name, r)
		}
	}()
	out, err := g.run(thread, m, c.Input)
	if err != nil {
		return reply, g.fault(ctx, inside, err)
	}
	if int64(len(out)) > g.limits.OutputBytes {
		return reply, sandbox.Faultf(sandbox.Output, "%s wrote more than %d bytes", g.name, g.limits.OutputBytes)
	}
	reply.Output = []byte(out)
	return reply, nil
}

// newThread returns an interpreter thread that prints to log.
func newThread(name string, log io.Writer) *starlark.Thread {
	thread := &starlark.Thread{Name: name, Print: func(_ *starlark.Thread, msg string) { fmt.Fprintln(log, msg) }}
	thread.SetMaxExecutionSteps(maxSteps)
	return thread
}

// run executes the file and calls its function with the arguments.
func (g *guest) run(thread *starlark.Thread, m *meter, input []byte) (string, error) {
	names := m.names()
	decode, encode := starlarkjson.Module.Members["decode"], starlarkjson.Module.Members["encode"]
	args, err := starlark.Call(thread, decode, starlark.Tuple{starlark.String(input)}, nil)
	if err != nil {
		return "", sandbox.Faultf(sandbox.Args, "%s: %v", g.name, err)
	}
	globals, err := g.program.Init(thread, names)
	if err != nil {
		return "", err
	}
	f, ok := globals[entry].(*starlark.Function)
	if !ok {
		return "", sandbox.Faultf(sandbox.Result, "%s defines no %s(args)", g.name, entry)
	}
	result, err := starlark.Call(thread, f, starlark.Tuple{args}, nil)
	if err != nil {
		return "", err
	}
	size, err := m.size(result)
	if err != nil {
		return "", err
	}
	if size > 8*g.limits.OutputBytes {
		return "", sandbox.Faultf(sandbox.Output, "%s wrote more than %d bytes", g.name, g.limits.OutputBytes)
	}
	text, err := starlark.Call(thread, encode, starlark.Tuple{result}, nil)
	if err != nil {
		return "", sandbox.Faultf(sandbox.Result, "result of %s does not encode as JSON: %v", g.name, err)
	}
	s, _ := starlark.AsString(text)
	return s, nil
}

// fault returns why a call ended.
func (g *guest) fault(outer, inside context.Context, err error) error {
	var fault *sandbox.Fault
	switch {
	case outer.Err() != nil:
		return outer.Err()
	case inside.Err() != nil:
		return context.Cause(inside)
	case errors.As(err, &fault):
		return fault
	}
	return sandbox.Faultf(sandbox.Trap, "%s: %v", g.name, err)
}

// libraries holds the modules of every program.
var libraries = starlark.StringDict{"math": starlarkmath.Module, "json": starlarkjson.Module}
