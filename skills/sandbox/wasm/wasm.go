// Package wasm runs WebAssembly guests, with WASI preview 1, by wazero.
//
// A module is parsed before the engine gets it: every size is checked, custom
// sections are dropped, and checks of the deadline are inserted where the
// engine has none (see guard). Then it is compiled, once, into a private
// folder. Each call is a new instance with its own memory.
//
// There are two forms. A command exports _start: it reads the arguments from
// standard input and writes the result to standard output. A reactor exports
// mm_alloc(len) → ptr and mm_call(ptr, len) → ptr<<32|len on its exported
// memory; if it has _initialize, that is called first.
//
// Without permissions, a guest reads a clock that counts its reads, the same
// random bytes in each call, no variables and no files. Network access is only
// the function mm.fetch, for a skill that is allowed hosts.
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

// Fetcher reads a URL for a guest that may reach the hosts.
type Fetcher interface {
	// Fetch returns the body, at most limit bytes.
	Fetch(ctx context.Context, hosts []string, url string, limit int64) ([]byte, error)
}

// maxBlocks limits the blocks of compiled functions. Compile time grows at
// least with the square of the blocks of a function and cannot be interrupted
// within one, so a module with a larger function is interpreted.
const maxBlocks = 1 << 12

// Options configures an executor.
type Options struct {
	Cache   string      // folder for compiled code; default, and if it cannot be created: memory
	Warn    func(error) // receives why Cache cannot be used; may be nil
	Fetcher Fetcher     // nil: allow.network is refused
}

// Executor is a sandbox.Executor of WebAssembly. It is closed after its guests.
type Executor struct {
	opt     Options
	fast    wazero.Runtime // compiles if wazero supports the processor
	slow    wazero.Runtime // interprets
	cache   wazero.CompilationCache
	compile sync.Mutex // serializes compilation, which takes memory
}

// New opens the folder of compiled code and starts the engine. The processor
// runs what is in the folder, so other users must not have access to it.
func New(ctx context.Context, opt Options) (*Executor, error) {
	e := &Executor{opt: opt, cache: wazero.NewCompilationCache()}
	if opt.Cache != "" {
		if err := e.openCache(opt.Cache); err != nil {
			return nil, err
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

// openCache opens the folder of compiled code. A folder that cannot be written,
// such as that of a read-only home, is passed over: the cache is in memory then.
// A folder that others can write to is an error.
func (e *Executor) openCache(path string) error {
	dir, err := fsx.Create(path, 0o700, fsx.Options{})
	if err == nil {
		defer dir.Close()
		if err := sandbox.Private(path, "code that the processor runs"); err != nil {
			return err
		}
		var cache wazero.CompilationCache
		if cache, err = wazero.NewCompilationCacheWithDir(filepath.Clean(path)); err == nil {
			e.cache = cache
			return nil
		}
	}
	if e.opt.Warn != nil {
		e.opt.Warn(fmt.Errorf("compiled skills are kept in memory only: %w", err))
	}
	return nil
}

// engine starts an engine with the imports of guests.
func (e *Executor) engine(ctx context.Context, config wazero.RuntimeConfig) (wazero.Runtime, error) {
	r := wazero.NewRuntimeWithConfig(ctx, config.WithCloseOnContextDone(true).WithCoreFeatures(api.CoreFeaturesV2).WithDebugInfoEnabled(false))
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return r, fmt.Errorf("defining WASI: %w", err)
	}
	return r, e.host(ctx, r)
}

// Close releases the engine.
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

// Prepare implements sandbox.Executor. Compiled code is found again by its
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
		return nil, sandbox.Refuse("memory limit too small: got %d bytes, want a page of %d", l.MemBytes, pageSize)
	}
	if err := e.checkAllow(p.Allow); err != nil {
		return nil, err
	}
	m, err := parse(p.Code)
	if err != nil {
		return nil, err
	}
	if least := int64(m.pages) * pageSize; least > l.MemBytes {
		return nil, sandbox.Faultf(sandbox.Memory, "module needs %d bytes of memory, limit %d", least, l.MemBytes)
	}
	form, err := m.form()
	if err != nil {
		return nil, err
	}
	if err := e.checkImports(m, p.Allow); err != nil {
		return nil, err
	}
	m.guard()
	engine := e.fast
	if m.tangled() {
		engine = e.slow
	}
	e.compile.Lock()
	defer e.compile.Unlock()
	// With two workers the compiler checks the context between functions.
	compiled, err := engine.CompileModule(experimental.WithCompilationWorkers(ctx, 2), m.encode())
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, sandbox.Refuse("invalid module: %v", err)
	}
	return &guest{engine: engine, name: p.Name, module: compiled, form: form, limits: l, allow: p.Allow}, nil
}

// checkAllow refuses permissions that cannot be granted.
func (e *Executor) checkAllow(a modules.Allow) error {
	if len(a.Network) > 0 && e.opt.Fetcher == nil {
		return sandbox.Refuse("wasm cannot grant allow.network here")
	}
	for _, path := range a.Read {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == string(filepath.Separator) {
			return sandbox.Refuse("allow.read: %q is not a clean absolute path below the root", path)
		}
		if _, err := os.Stat(path); err != nil {
			return sandbox.Refuse("allow.read: %v", err)
		}
	}
	return nil
}

// form is the way a module is called.
type form int

const (
	command form = iota
	reactor
	script // run by an interpreter
)

func (m *module) form() (form, error) {
	has := func(name string, kind byte) bool { k, ok := m.exports[name]; return ok && k == kind }
	if !has("memory", 2) {
		return 0, sandbox.Refuse(`module exports no memory "memory"`)
	}
	if has("_start", 0) {
		return command, nil
	}
	if has("mm_alloc", 0) && has("mm_call", 0) {
		return reactor, nil
	}
	return 0, sandbox.Refuse("module exports neither _start nor mm_alloc and mm_call")
}

// checkImports refuses unknown imports.
func (e *Executor) checkImports(m *module, allow modules.Allow) error {
	for _, full := range m.imports {
		from, name, _ := strings.Cut(full, ".")
		host := e.fast.Module(from)
		if host == nil || host.ExportedFunctionDefinitions()[name] == nil {
			return sandbox.Refuse("unknown import %q", full)
		}
		if from == hostModule && len(allow.Network) == 0 {
			return sandbox.Refuse("import %q needs allow.network", full)
		}
	}
	return nil
}

// environ returns the variables that a guest may read.
func environ(allow []string) [][2]string {
	var out [][2]string
	for _, name := range slices.Sorted(slices.Values(allow)) {
		if v, ok := os.LookupEnv(name); ok {
			out = append(out, [2]string{name, v})
		}
	}
	return out
}
