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

// Interpreter is a module that is no guest by itself: programs of its language
// are, each call in an instance of its own. It is walked and given checks as
// every module, and held to the limits of the program; what it imports, and how
// it is started, is for whoever knows it.
type Interpreter struct {
	engine wazero.Runtime
	module wazero.CompiledModule
	least  int64 // bytes of memory that it begins with
}

// Imports makes what an interpreter imports, under the names that it gives.
// There is nothing else in the engine, WASI not excepted.
type Imports func(ctx context.Context, r wazero.Runtime, m wazero.CompiledModule) error

// Run has a fresh instance run a program. What it writes to out is the result,
// to log what people may read; the context ends when the program is to end. A
// *sandbox.Fault says what went wrong; any other error is a trap.
type Run func(ctx context.Context, instance api.Module, c sandbox.Call, out, log io.Writer) error

// Interpreter compiles a module that runs programs, once for all of them. Whoever
// calls it knows the module by its digest: how long it takes to compile is not
// judged.
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

// Close frees the interpreter; none of its guests may be called any more.
func (i *Interpreter) Close() error { return i.engine.Close(context.Background()) }

// Guest makes a guest of a program: name and limits are its own, run knows its
// code.
func (i *Interpreter) Guest(name string, l modules.Effective, run Run) (sandbox.Guest, error) {
	if l.MemBytes < i.least {
		return nil, sandbox.Faultf(sandbox.Memory, "the interpreter begins with %d bytes of memory; the limit is %d", i.least, l.MemBytes)
	}
	return &guest{engine: i.engine, name: name, module: i.module, form: script, limits: l, interpret: run}, nil
}
