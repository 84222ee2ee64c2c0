package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
)

// guest is a compiled module.
type guest struct {
	engine wazero.Runtime
	name   string
	module wazero.CompiledModule
	form   form
	limits modules.Effective
	allow  modules.Allow

	interpret Run // of a script
}

// Close implements sandbox.Guest. A script's module belongs to its interpreter.
func (g *guest) Close() error {
	if g.form == script {
		return nil
	}
	return g.module.Close(context.Background())
}

// Call implements sandbox.Guest.
func (g *guest) Call(ctx context.Context, c sandbox.Call) (sandbox.Reply, error) {
	if err := ctx.Err(); err != nil {
		return sandbox.Reply{}, err
	}
	if err := sandbox.Assets(c.Assets); err != nil {
		return sandbox.Reply{}, err
	}
	mem, err := reserve(g.limits.MemBytes / pageSize * pageSize)
	if err != nil {
		return sandbox.Reply{}, fmt.Errorf("reserving memory: %w", err)
	}
	defer mem.Free()
	start := time.Now()
	limit := time.Duration(g.limits.TimeoutMS) * time.Millisecond
	inside, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	timer := time.AfterFunc(limit, func() {
		stop(sandbox.Faultf(sandbox.Time, "%s took more than %v", g.name, limit))
	})
	defer timer.Stop()
	full := func() {
		stop(sandbox.Faultf(sandbox.Output, "%s wrote more than %d bytes", g.name, g.limits.OutputBytes))
	}
	out, log := sandbox.NewBuffer(g.limits.OutputBytes, full), sandbox.NewLog(full)
	config, done, err := g.config(inside, c)
	if err != nil {
		return sandbox.Reply{}, err
	}
	defer done()
	if g.form == script {
		err = g.script(inside, mem, c, out, log)
	} else {
		err = g.run(inside, mem, config.WithStdout(out).WithStderr(log), c.Input, out)
	}
	reply := sandbox.Reply{Output: out.Bytes(), Log: log.Bytes(), Usage: sandbox.Usage{Time: time.Since(start), Memory: mem.peak}}
	return reply, g.fault(ctx, inside, err, mem)
}

// run creates an instance and calls it.
func (g *guest) run(ctx context.Context, mem *memory, config wazero.ModuleConfig, input []byte, out *sandbox.Buffer) error {
	if g.form == command {
		config = config.WithStdin(bytes.NewReader(input))
	}
	ctx = withHosts(ctx, g.allow.Network)
	mod, err := g.engine.InstantiateModule(experimental.WithMemoryAllocator(ctx, mem), g.module, config)
	if err != nil {
		return err
	}
	defer mod.Close(context.WithoutCancel(ctx))
	if g.form == command {
		_, err = mod.ExportedFunction("_start").Call(ctx)
		return g.deep(mod, err)
	}
	if f := mod.ExportedFunction("_initialize"); f != nil {
		if _, err := f.Call(ctx); err != nil {
			return g.deep(mod, err)
		}
	}
	return g.deep(mod, react(ctx, mod, input, out))
}

// deep reports a trap as exceeding deepest if it does.
func (g *guest) deep(mod api.Module, err error) error {
	left := mod.ExportedGlobal(leftName)
	if err == nil || left == nil || api.DecodeI32(left.Get()) >= 0 {
		return err
	}
	return sandbox.Faultf(sandbox.Trap, "%s crashed: calls more than %d MiB deep", g.name, deepest>>20)
}

// script creates an instance of the interpreter that runs the program.
func (g *guest) script(ctx context.Context, mem *memory, c sandbox.Call, out, log io.Writer) error {
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	mod, err := g.engine.InstantiateModule(experimental.WithMemoryAllocator(ctx, mem), g.module, config)
	if err != nil {
		return err
	}
	defer mod.Close(context.WithoutCancel(ctx))
	return g.deep(mod, g.interpret(ctx, mod, c, out, log))
}

// react passes the arguments to a reactor and reads the result.
func react(ctx context.Context, mod api.Module, input []byte, out *sandbox.Buffer) error {
	alloc, call := mod.ExportedFunction("mm_alloc"), mod.ExportedFunction("mm_call")
	at, err := one(alloc.Call(ctx, uint64(len(input))))
	if err != nil {
		return err
	}
	if !mod.Memory().Write(uint32(at), input) {
		return sandbox.Faultf(sandbox.Result, "mm_alloc returned %d: no room for %d bytes", uint32(at), len(input))
	}
	packed, err := one(call.Call(ctx, uint64(uint32(at)), uint64(len(input))))
	if err != nil {
		return err
	}
	b, ok := mod.Memory().Read(uint32(packed>>32), uint32(packed))
	if !ok {
		return sandbox.Faultf(sandbox.Result, "mm_call returned %d bytes at %d: out of bounds", uint32(packed), packed>>32)
	}
	_, err = out.Write(b)
	return err
}

// one returns the single result of a function.
func one(results []uint64, err error) (uint64, error) {
	if err == nil && len(results) != 1 {
		err = sandbox.Faultf(sandbox.Result, "function returned %d values, want 1", len(results))
	}
	if err != nil {
		return 0, err
	}
	return results[0], nil
}

// fault returns why a call ended: first the reasons of mm, then those of the
// guest.
func (g *guest) fault(outer, inside context.Context, err error, mem *memory) error {
	cause := context.Cause(inside)
	if err == nil && cause == nil {
		return nil
	}
	if outer.Err() != nil {
		return outer.Err()
	}
	full := sandbox.KindOf(cause) == sandbox.Output
	if mem.refused && !full {
		return sandbox.Faultf(sandbox.Memory, "%s exceeded its memory limit of %d bytes", g.name, g.limits.MemBytes)
	}
	if cause != nil {
		return cause
	}
	var exit *sys.ExitError
	var fault *sandbox.Fault
	switch {
	case errors.As(err, &fault):
		return fault
	case errors.As(err, &exit):
		if exit.ExitCode() == 0 {
			return nil
		}
		f := sandbox.Faultf(sandbox.Exit, "%s exited with code %d", g.name, exit.ExitCode())
		f.Code = int(exit.ExitCode())
		return f
	}
	return sandbox.Faultf(sandbox.Trap, "%s crashed: %s", g.name, firstLine(err.Error()))
}

func firstLine(s string) string {
	for i := range len(s) {
		if s[i] == '\n' {
			return s[:i]
		}
	}
	return s
}
