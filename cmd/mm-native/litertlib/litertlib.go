// Package litertlib drives LiteRT's shared library: functions of named tensors with
// fixed shapes in TFLite files, on the processor.
//
// A compiled model computes one call at a time. Its kernels (XNNPACK) do not end
// early, so a canceled call returns and the next one waits for its end.
package litertlib

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/runtimes"
)

// Engine is LiteRT.
type Engine struct {
	api         *api
	environment uintptr
	version     string
}

// Open loads the library of a folder.
func Open(dir string) (*Engine, error) {
	version, err := release(dir)
	if err != nil {
		return nil, err
	}
	a, err := load(dir)
	if err != nil {
		return nil, err
	}
	e := &Engine{api: a, version: version}
	only := []option{{tag: registerOnly, kind: integer, value: processor}, {tag: logFrom, kind: integer, value: warnings}}
	return e, check("starting", a.environment(int32(len(only)), &only[0], &e.environment))
}

// Name returns "litert".
func (*Engine) Name() string { return "litert" }

// Probe returns the library's version.
func (e *Engine) Probe(context.Context) (runtimes.Info, error) {
	return runtimes.Info{Version: e.version, Devices: []string{"cpu"}, Formats: []string{string(abi.TFLite)}, License: "Apache-2.0"}, nil
}

// Can requires a file of the format.
func (*Engine) Can(p builds.Part) error {
	if p.Files.Entry(abi.TFLite) == "" {
		return &runtimes.Unavailable{What: p.ID(), Why: "LiteRT reads TFLite files"}
	}
	return nil
}

// Open compiles the first signature of a file.
func (e *Engine) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	path, err := b.Entry(abi.TFLite)
	if err := errors.Join(err, l.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	f := &function{e: e, turn: make(chan struct{}, 1)}
	if err := f.open(path, l.Threads); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// options returns the options of a compilation.
func (e *Engine) options(threads int) (o uintptr, err error) {
	if threads == 0 {
		threads = pool.Default()
	}
	if err := check("creating options", e.api.options(&o)); err != nil {
		return 0, err
	}
	var opaque uintptr
	err = check("choosing the processor", e.api.accelerator(o, processor))
	if err == nil {
		text := e.api.duplicate(fmt.Sprintf("num_threads = %d\n", min(threads, runtime.NumCPU())))
		err = check("setting threads", e.api.opaque("xnnpack", text, e.api.free, &opaque))
	}
	if err == nil {
		err = check("setting threads", e.api.addOpaque(o, opaque))
	}
	if err != nil {
		e.api.optionsFree(o)
	}
	return o, err
}

// function is a compiled model.
type function struct {
	e               *Engine
	turn            chan struct{} // holds a value while computing
	model, compiled uintptr       // 0: closed
	inputs, outputs []port
	flag            *atomic.Uint32 // of the call that computes: 1 if it is canceled
}

// open reads, compiles and describes a file.
func (f *function) open(path string, threads int) error {
	a := f.e.api
	options, err := f.e.options(threads)
	if err != nil {
		return err
	}
	defer a.optionsFree(options)
	if err := check("reading the model", a.modelOpen(f.e.environment, path, &f.model)); err != nil {
		return err
	}
	var n, signature uintptr
	if err := check("counting signatures", a.signatures(f.model, &n)); err != nil {
		return err
	}
	if n == 0 {
		return errors.New("LiteRT: the model has no signature")
	}
	if err := check("reading the signature", a.signature(f.model, 0, &signature)); err != nil {
		return err
	}
	if err := check("compiling the model", a.compile(f.e.environment, f.model, options, &f.compiled)); err != nil {
		return err
	}
	if f.inputs, err = f.ports(a.input, signature); err != nil {
		return fmt.Errorf("inputs: %w", err)
	}
	if f.outputs, err = f.ports(a.output, signature); err != nil {
		return fmt.Errorf("outputs: %w", err)
	}
	f.flag = new(atomic.Uint32)
	return check("preparing cancellation", a.cancellation(f.compiled, flagOf(f.flag), a.isSet))
}

// Close waits for a computation and frees the model.
func (f *function) Close() error {
	f.turn <- struct{}{}
	defer f.leave()
	a := f.e.api
	for _, p := range slices.Concat(f.inputs, f.outputs) {
		a.bufferFree(p.buffer)
	}
	f.inputs, f.outputs = nil, nil
	if f.compiled != 0 {
		a.compiledFree(f.compiled)
	}
	if f.model != 0 {
		a.modelFree(f.model)
	}
	f.compiled, f.model = 0, 0
	return nil
}

func (f *function) leave() { <-f.turn }

// Run computes.
func (f *function) Run(ctx context.Context, in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := f.prepare(ctx, in); err != nil {
		f.leave()
		return nil, err
	}
	type result struct {
		out map[string]runtimes.Tensor
		err error
	}
	done := make(chan result, 1)
	var end sync.Mutex // the flag must not reach the next call
	ended := false
	go func() { // Close waits for it
		defer f.leave()
		out, err := f.compute()
		end.Lock()
		defer end.Unlock()
		ended = true
		f.flag.Store(0)
		done <- result{out, err}
	}()
	select {
	case r := <-done:
		return r.out, r.err
	case <-ctx.Done():
	}
	end.Lock()
	defer end.Unlock()
	if !ended {
		f.flag.Store(1)
	}
	return nil, ctx.Err()
}

// prepare checks and copies the inputs.
func (f *function) prepare(ctx context.Context, in map[string]runtimes.Tensor) error {
	if f.compiled == 0 {
		return fmt.Errorf("the model is %w", runtimes.ErrClosed)
	}
	if err := errors.Join(ctx.Err(), f.fit(in)); err != nil {
		return err
	}
	for _, p := range f.inputs {
		if err := f.fill(p, in[p.name].Data); err != nil {
			return fmt.Errorf("input %s: %w", p.name, err)
		}
	}
	return nil
}

// compute runs the model and copies the outputs.
func (f *function) compute() (map[string]runtimes.Tensor, error) {
	in, out := buffers(f.inputs), buffers(f.outputs)
	err := check("computing", f.e.api.run(f.compiled, 0, uintptr(len(f.inputs)), &in[0], uintptr(len(f.outputs)), &out[0]))
	if err != nil {
		return nil, err
	}
	results := make(map[string]runtimes.Tensor, len(f.outputs))
	for _, p := range f.outputs {
		t, err := f.read(p)
		if err != nil {
			return nil, fmt.Errorf("output %s: %w", p.name, err)
		}
		results[p.name] = t
	}
	return results, nil
}

// buffers returns the buffers of ports, followed by zero so that it is not empty.
func buffers(list []port) []uintptr {
	var out []uintptr
	for _, p := range list {
		out = append(out, p.buffer)
	}
	return append(out, 0)
}

// fit reports every misfit of the inputs.
func (f *function) fit(in map[string]runtimes.Tensor) error {
	want := map[string]runtimes.Tensor{}
	for _, p := range f.inputs {
		want[p.name] = runtimes.Tensor{Type: p.typ, Shape: p.shape}
	}
	return runtimes.Misfits(in, want)
}
