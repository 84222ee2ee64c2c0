package wasm

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
)

// Interpreter is a module that runs programs in its language, each call in a
// new instance. It is parsed and guarded as every module and held to the
// limits of the program; the caller provides its imports and starts it.
type Interpreter struct {
	engine wazero.Runtime
	module wazero.CompiledModule
	least  int64 // initial bytes of memory
}

// Imports defines the imports of an interpreter. The engine has no others, not
// even WASI.
type Imports func(ctx context.Context, r wazero.Runtime, m wazero.CompiledModule) error

// Run runs a program in a new instance. It writes the result to out and
// messages for people to log; the context ends when the program must end. An
// error that is not a *sandbox.Fault is a trap.
type Run func(ctx context.Context, instance api.Module, c sandbox.Call, out, log io.Writer) error

// Interpreter compiles a module that runs programs, once for all of them. The
// caller verifies the module: the time to compile it is not limited.
func (e *Executor) Interpreter(ctx context.Context, code []byte, imports Imports) (*Interpreter, error) {
	m, err := parse(code)
	if err != nil {
		return nil, err
	}
	m.guard()
	config := wazero.NewRuntimeConfig().WithCompilationCache(e.cache).WithCloseOnContextDone(true).WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false)
	i := &Interpreter{engine: wazero.NewRuntimeWithConfig(ctx, config), least: int64(m.pages) * pageSize}
	e.compile.Lock()
	defer e.compile.Unlock()
	if i.module, err = i.engine.CompileModule(experimental.WithCompilationWorkers(ctx, 2), m.encode()); err == nil {
		err = imports(ctx, i.engine, i.module)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("compiling the interpreter: %w", err), i.Close())
	}
	return i, nil
}

// Close releases the interpreter; its guests may no longer be called.
func (i *Interpreter) Close() error { return i.engine.Close(context.Background()) }

// Guest returns a guest that run runs in the interpreter.
func (i *Interpreter) Guest(name string, l modules.Effective, run Run) (sandbox.Guest, error) {
	if l.MemBytes < i.least {
		return nil, sandbox.Faultf(sandbox.Memory, "the interpreter needs %d bytes of memory, limit %d", i.least, l.MemBytes)
	}
	return &guest{engine: i.engine, name: name, module: i.module, form: script, limits: l, interpret: run}, nil
}
