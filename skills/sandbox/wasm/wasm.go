// Package wasm runs WebAssembly guests, with WASI preview 1, by wazero.
//
// A module is walked before the engine sees it: every announced size is judged,
// custom sections are left out, and checks of the deadline are put where the
// engine has none (see guard). Then it is compiled, once, to a folder of the
// user's own. Each call is an instance of its own with a memory of its own.
//
// Two forms are run. A command exports _start: the arguments are its standard
// input, the result its standard output. A reactor exports mm_alloc(len) → ptr
// and mm_call(ptr, len) → ptr<<32|len, both about its exported memory; its
// _initialize, where there is one, is called first.
//
// A guest without permission reads a clock that tells its own reads, bytes
// that are the same in each call, no variables and no files; of network it has
// nothing, but for the function mm.fetch of a skill that is allowed hosts.
package wasm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills/sandbox"
)

// pageSize is the unit of a guest's memory, in bytes.
const pageSize = 64 << 10

// Fetcher gets what a URL names for a guest that may reach the hosts.
type Fetcher interface {
	// Fetch gives the body of at most limit bytes.
	Fetch(ctx context.Context, hosts []string, url string, limit int64) ([]byte, error)
}

// A compiler's time grows with the square of the blocks of a function and more,
// and cannot be ended within one: a module with a function of more than
// maxBlocks is interpreted.
const maxBlocks = 1 << 12

// Options of an executor.
type Options struct {
	Cache   string  // folder for compiled code; "": it is kept in memory alone
	Fetcher Fetcher // nil: no skill may be allowed network
}

// Executor is a sandbox.Executor of WebAssembly. It is closed after its guests.
type Executor struct {
	opt     Options
	fast    wazero.Runtime // compiles, where wazero has a compiler for the processor
	slow    wazero.Runtime // interprets
	cache   wazero.CompilationCache
	compile sync.Mutex // one module at a time: a compiler takes memory
}

// New opens the folder of compiled code and starts the engine. The folder holds
// what the processor runs: one that is not this user's alone is an error.
func New(ctx context.Context, opt Options) (*Executor, error) {
	e := &Executor{opt: opt, cache: wazero.NewCompilationCache()}
	if opt.Cache != "" {
		dir, err := fsx.Create(opt.Cache, 0o700, fsx.Options{})
		if err != nil {
			return nil, fmt.Errorf("making the folder of compiled skills: %w", err)
		}
		defer dir.Close()
		if err := sandbox.Private(opt.Cache, "code that the processor runs"); err != nil {
			return nil, err
		}
		if e.cache, err = wazero.NewCompilationCacheWithDir(filepath.Clean(opt.Cache)); err != nil {
			return nil, fmt.Errorf("opening the folder of compiled skills: %w", err)
		}
	}
	var err error
	if e.fast, err = e.engine(ctx, wazero.NewRuntimeConfig().WithCompilationCache(e.cache)); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if e.slow, err = e.engine(ctx, wazero.NewRuntimeConfigInterpreter()); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// engine starts an engine with what guests import.
func (e *Executor) engine(ctx context.Context, config wazero.RuntimeConfig) (wazero.Runtime, error) {
	r := wazero.NewRuntimeWithConfig(ctx, config.WithCloseOnContextDone(true).WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false))
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return r, fmt.Errorf("making WASI: %w", err)
	}
	return r, e.host(ctx, r)
}

// Close frees the engine.
func (e *Executor) Close() error {
	ctx := context.Background()
	var all error
	for _, r := range []wazero.Runtime{e.fast, e.slow} {
		if r != nil {
			all = errors.Join(all, r.Close(ctx))
		}
	}
	return errors.Join(all, e.cache.Close(ctx))
}

// Prepare implements sandbox.Executor. What it compiles is found again by its
// digest, also by later processes.
func (e *Executor) Prepare(ctx context.Context, p sandbox.Program) (sandbox.Guest, error) {
	l, err := sandbox.Check(p)
	if err != nil {
		return nil, err
	}
	if err := sandbox.OneThread("wasm", l); err != nil {
		return nil, err
	}
	if l.MemBytes < pageSize {
		return nil, sandbox.Refuse("a memory limit of %d bytes is less than the %d of a page", l.MemBytes, pageSize)
	}
	if err := e.allowed(p.Allow); err != nil {
		return nil, err
	}
	m, err := parse(p.Code)
	if err != nil {
		return nil, err
	}
	if least := int64(m.pages) * pageSize; least > l.MemBytes {
		return nil, sandbox.Faultf(sandbox.Memory, "it asks for %d bytes of memory at its start; its limit is %d", least, l.MemBytes)
	}
	form, err := m.form()
	if err != nil {
		return nil, err
	}
	if err := e.known(m, p.Allow); err != nil {
		return nil, err
	}
	m.guard()
	engine := e.fast
	if m.tangled() {
		engine = e.slow
	}
	e.compile.Lock()
	defer e.compile.Unlock()
	// With two workers the compiler looks at the context between functions.
	compiled, err := engine.CompileModule(experimental.WithCompilationWorkers(ctx, 2), m.encode())
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, sandbox.Refuse("the module is broken: %v", err)
	}
	return &guest{engine: engine, name: p.Name, module: compiled, form: form, limits: l, allow: p.Allow}, nil
}

// allowed refuses permissions that cannot be given.
func (e *Executor) allowed(a modules.Allow) error {
	if len(a.Network) > 0 && e.opt.Fetcher == nil {
		return sandbox.Refuse("wasm cannot give allow.network here")
	}
	for _, path := range a.Read {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == string(filepath.Separator) {
			return sandbox.Refuse("allow.read names %q, which is no clean absolute path below the root", path)
		}
		if _, err := os.Stat(path); err != nil {
			return sandbox.Refuse("allow.read: %v", err)
		}
	}
	return nil
}

// form says how a module is called.
type form int

const (
	command form = iota
	reactor
	script // of an interpreter
)

func (m *module) form() (form, error) {
	has := func(name string, kind byte) bool { k, ok := m.exports[name]; return ok && k == kind }
	if !has("memory", 2) {
		return 0, sandbox.Refuse(`it exports no memory called "memory"`)
	}
	if has("_start", 0) {
		return command, nil
	}
	if has("mm_alloc", 0) && has("mm_call", 0) {
		return reactor, nil
	}
	return 0, sandbox.Refuse("it exports neither _start nor mm_alloc and mm_call")
}

// known refuses imports that nobody here gives.
func (e *Executor) known(m *module, allow modules.Allow) error {
	for _, full := range m.imports {
		from, name, _ := strings.Cut(full, ".")
		host := e.fast.Module(from)
		if host == nil || host.ExportedFunctionDefinitions()[name] == nil {
			return sandbox.Refuse("it imports %q, which mm does not have", full)
		}
		if from == hostModule && len(allow.Network) == 0 {
			return sandbox.Refuse("it imports %q, but allow.network names no host", full)
		}
	}
	return nil
}

// environ are the variables that a guest may see.
func environ(allow []string) [][2]string {
	var out [][2]string
	for _, name := range slices.Sorted(slices.Values(allow)) {
		if v, ok := os.LookupEnv(name); ok {
			out = append(out, [2]string{name, v})
		}
	}
	return out
}
