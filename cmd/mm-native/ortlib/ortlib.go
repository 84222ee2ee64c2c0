// Package ortlib drives ONNX Runtime's shared library: functions of named tensors.
//
// [Open] loads the library of a folder and negotiates a version of its C interface (api.go). A
// model is one session on the processor; Run reads tensors in place and copies results out of
// the library's memory. Profiling and telemetry are off, and idle threads sleep.
package ortlib

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/runtimes"
)

// Engine is ONNX Runtime.
type Engine struct {
	api       *api
	env       uintptr
	allocator uintptr
	memory    uintptr // describes the processor's memory
}

// Open loads the library of a folder.
func Open(dir string) (*Engine, error) {
	a, err := open(dir)
	if err != nil {
		return nil, err
	}
	e := &Engine{api: a}
	name := cString("mm")
	if e.env, err = a.create(createEnv, loggingError, uintptr(unsafe.Pointer(name))); err != nil {
		return nil, err
	}
	runtime.KeepAlive(name)
	if err := a.call(disableTelemetry, e.env); err != nil {
		return nil, err
	}
	if e.allocator, err = a.create(defaultAllocator); err != nil {
		return nil, err
	}
	const deviceAllocator, defaultMemory = 0, 0
	e.memory, err = a.create(createCPUMemoryInfo, deviceAllocator, defaultMemory)
	return e, err
}

// Name returns "onnxruntime".
func (*Engine) Name() string { return "onnxruntime" }

// Probe returns the library's version.
func (e *Engine) Probe(context.Context) (runtimes.Info, error) {
	return runtimes.Info{Version: e.api.version, Devices: []string{"cpu"}, Formats: []string{string(abi.ONNX)}, License: "MIT"}, nil
}

// Can requires an ONNX file.
func (*Engine) Can(p builds.Part) error {
	if p.Files.Entry(abi.ONNX) == "" {
		return &runtimes.Unavailable{What: p.ID(), Why: "ONNX Runtime reads ONNX"}
	}
	return nil
}

// Open creates a session.
func (e *Engine) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	return e.OpenFor(ctx, b, l, Session{})
}

// OpenFor creates a session with a provider.
func (e *Engine) OpenFor(ctx context.Context, b runtimes.Bundle, l runtimes.Limits, s Session) (runtimes.Model, error) {
	path, err := b.Entry(abi.ONNX)
	if err := errors.Join(err, l.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	opt, err := e.options(l.Threads)
	if err != nil {
		return nil, err
	}
	defer e.api.release(releaseSessionOptions, opt)
	if err := e.configure(opt, s); err != nil {
		return nil, err
	}
	file, err := nativePath(path)
	if err != nil {
		return nil, err
	}
	f := &function{e: e}
	if f.session, err = e.api.create(createSession, e.env, uintptr(file), opt); err != nil {
		return nil, err
	}
	runtime.KeepAlive(file)
	if err := f.describe(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// options returns the options of a session.
func (e *Engine) options(threads int) (uintptr, error) {
	if threads == 0 {
		threads = pool.Default()
	}
	threads = min(threads, runtime.NumCPU())
	opt, err := e.api.create(createSessionOptions)
	if err != nil {
		return 0, err
	}
	err = errors.Join(e.api.call(setIntraOpThreads, opt, uintptr(threads)), e.api.call(setInterOpThreads, opt, 1))
	for _, key := range []string{"session.intra_op.allow_spinning", "session.inter_op.allow_spinning"} {
		k, v := cString(key), cString("0")
		err = errors.Join(err, e.api.call(addSessionConfigEntry, opt, uintptr(unsafe.Pointer(k)), uintptr(unsafe.Pointer(v))))
		runtime.KeepAlive(k)
		runtime.KeepAlive(v)
	}
	if err != nil {
		e.api.release(releaseSessionOptions, opt)
		return 0, err
	}
	return opt, nil
}

// input describes an input of the session.
type input struct {
	typ  runtimes.Elem
	dims []int64 // -1 for any size
}

// function is a session.
type function struct {
	e *Engine

	mu      sync.RWMutex // held for reading while computing
	session uintptr      // 0: closed
	inputs  map[string]input
	outputs []string
}

// Close frees the session.
func (f *function) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.e.api.release(releaseSession, f.session)
	f.session = 0
	return nil
}

// Run computes.
func (f *function) Run(ctx context.Context, in map[string]runtimes.Tensor) (out map[string]runtimes.Tensor, err error) {
	err = f.Lend(ctx, in, func(lent map[string]runtimes.Tensor) error {
		out = make(map[string]runtimes.Tensor, len(lent))
		for name, t := range lent {
			t.Data = slices.Clone(t.Data)
			out[name] = t
		}
		return nil
	})
	return out, err
}

// Lend computes and passes the results to use, in the library's memory, which is valid until use
// returns.
func (f *function) Lend(ctx context.Context, in map[string]runtimes.Tensor, use func(out map[string]runtimes.Tensor) error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.session == 0 {
		return fmt.Errorf("the model is %w", runtimes.ErrClosed)
	}
	if err := errors.Join(ctx.Err(), f.fit(in)); err != nil {
		return err
	}
	defer runtime.KeepAlive(in) // the library reads the tensors in place
	values := make([]uintptr, 0, len(in))
	defer func() {
		for _, v := range values {
			f.e.api.release(releaseValue, v)
		}
	}()
	names := slices.Sorted(maps.Keys(in))
	for _, name := range names {
		v, err := f.e.tensor(in[name])
		if err != nil {
			return fmt.Errorf("input %s: %w", name, err)
		}
		values = append(values, v)
	}
	results := make([]uintptr, len(f.outputs))
	defer func() {
		for _, v := range results {
			f.e.api.release(releaseValue, v)
		}
	}()
	if err := f.compute(ctx, names, values, results); err != nil {
		return err
	}
	out := make(map[string]runtimes.Tensor, len(results))
	for i, name := range f.outputs {
		t, err := f.e.result(results[i])
		if err != nil {
			return fmt.Errorf("output %s: %w", name, err)
		}
		out[name] = t
	}
	return use(out)
}

// compute runs the session until it ends or ctx ends.
func (f *function) compute(ctx context.Context, names []string, values, results []uintptr) error {
	opt, err := f.e.api.create(createRunOptions)
	if err != nil {
		return err
	}
	defer f.e.api.release(releaseRunOptions, opt)
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		f.e.api.call(runOptionsSetTerminate, opt) // never fails
		close(told)
	})
	cNames := func(names []string) []*byte {
		list := make([]*byte, 0, len(names)+1)
		for _, n := range names {
			list = append(list, cString(n))
		}
		return append(list, nil) // so that the first element has an address
	}
	in, out := cNames(names), cNames(f.outputs)
	values = append(values, 0)
	err = f.e.api.call(run, f.session, opt, uintptr(unsafe.Pointer(&in[0])), uintptr(unsafe.Pointer(&values[0])), uintptr(len(names)),
		uintptr(unsafe.Pointer(&out[0])), uintptr(len(results)), uintptr(unsafe.Pointer(&results[0])))
	runtime.KeepAlive(in)
	runtime.KeepAlive(out)
	if !stop() {
		<-told
		return ctx.Err()
	}
	return err
}
