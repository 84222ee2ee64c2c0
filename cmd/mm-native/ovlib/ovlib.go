// Package ovlib drives OpenVINO's shared library: functions of named tensors with
// fixed shapes, on the processor.
//
// A model is compiled once for 32-bit floats, so that results do not depend on the
// processor's other types. Each concurrent call has its own request, which
// later calls reuse.
package ovlib

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/cmd/mm-native/dynlib"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/runtimes"
)

// Engine is OpenVINO.
type Engine struct {
	api     *api
	core    uintptr
	version string
}

// Open loads the libraries of a folder.
func Open(dir string) (*Engine, error) {
	a, err := load(dir)
	if err != nil {
		return nil, err
	}
	e := &Engine{api: a}
	if e.version, err = a.release(); err != nil {
		return nil, err
	}
	return e, a.check("starting", a.coreCreate(&e.core))
}

// Name returns "openvino".
func (*Engine) Name() string { return "openvino" }

// Probe returns the library's version.
func (e *Engine) Probe(context.Context) (runtimes.Info, error) {
	return runtimes.Info{Version: e.version, Devices: []string{"cpu"}, Formats: []string{string(abi.OpenVINO)}, License: "Apache-2.0"}, nil
}

// Can requires a file of the format.
func (*Engine) Can(p builds.Part) error {
	if p.Files.Entry(abi.OpenVINO) == "" {
		return &runtimes.Unavailable{What: p.ID(), Why: "OpenVINO reads its own format"}
	}
	return nil
}

// Open reads NAME.xml with NAME.bin and compiles the model.
func (e *Engine) Open(ctx context.Context, b runtimes.Bundle, l runtimes.Limits) (runtimes.Model, error) {
	path, err := b.Entry(abi.OpenVINO)
	if err := errors.Join(err, l.Check(), ctx.Err()); err != nil {
		return nil, err
	}
	threads := l.Threads
	if threads == 0 {
		threads = pool.Default()
	}
	var model uintptr
	weights := strings.TrimSuffix(path, filepath.Ext(path)) + ".bin"
	if err := e.api.check("reading the model", e.api.readModel(e.core, path, weights, &model)); err != nil {
		return nil, err
	}
	defer e.api.modelFree(model)
	f := &function{api: e.api, inputs: map[string]port{}}
	properties := []property{
		{cString("INFERENCE_PRECISION_HINT"), cString("f32")},
		{cString("INFERENCE_NUM_THREADS"), cString(strconv.Itoa(min(threads, runtime.NumCPU())))},
	}
	err = e.api.check("compiling the model", e.api.compile(e.core, model, "CPU", uintptr(len(properties)), &properties[0], &f.compiled))
	runtime.KeepAlive(properties)
	if err == nil {
		err = f.describe()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// cString returns a C string in Go memory.
func cString(s string) *byte { return &append([]byte(s), 0)[0] }

// port is an input or an output.
type port struct {
	index uintptr
	name  string
	typ   runtimes.Elem
	kind  int32
	shape []int64
}

// function is a compiled model.
type function struct {
	api     *api
	inputs  map[string]port
	outputs []port

	mu       sync.RWMutex // held for reading while computing
	compiled uintptr      // 0: closed

	free sync.Mutex
	idle []uintptr // requests
}

// describe reads the inputs and outputs.
func (f *function) describe() error {
	var ins, outs uintptr
	if err := errors.Join(f.api.check("counting inputs", f.api.inputs(f.compiled, &ins)), f.api.check("counting outputs", f.api.outputs(f.compiled, &outs))); err != nil {
		return err
	}
	for i := range ins {
		p, err := f.port(f.api.input, i)
		if err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
		f.inputs[p.name] = p
	}
	for i := range outs {
		p, err := f.port(f.api.output, i)
		if err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
		f.outputs = append(f.outputs, p)
	}
	return nil
}

func (f *function) port(read func(compiled, i uintptr, port *uintptr) int32, i uintptr) (p port, err error) {
	var at, name uintptr
	if err := f.api.check("reading a port", read(f.compiled, i, &at)); err != nil {
		return p, err
	}
	defer f.api.portFree(at)
	if err := f.api.check("reading a name", f.api.portName(at, &name)); err != nil {
		return p, err
	}
	defer f.api.free(name)
	p.index, p.name = i, dynlib.String(name)
	var s shape
	if err := errors.Join(f.api.check("reading a type", f.api.portType(at, &p.kind)), f.api.check("reading a shape, which must be fixed", f.api.portShape(at, &s))); err != nil {
		return p, err
	}
	p.shape = f.api.dims(&s)
	if p.typ = elems[p.kind]; p.typ == "" {
		return p, fmt.Errorf("%s: unsupported element type %d", p.name, p.kind)
	}
	return p, nil
}

// Close frees the model.
func (f *function) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.idle {
		f.api.requestFree(r)
	}
	if f.idle = nil; f.compiled != 0 {
		f.api.compiledFree(f.compiled)
	}
	f.compiled = 0
	return nil
}

// Run computes.
func (f *function) Run(ctx context.Context, in map[string]runtimes.Tensor) (out map[string]runtimes.Tensor, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.compiled == 0 {
		return nil, fmt.Errorf("the model is %w", runtimes.ErrClosed)
	}
	if err := errors.Join(ctx.Err(), f.fit(in)); err != nil {
		return nil, err
	}
	request, err := f.take()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil { // its state is unknown
			f.api.requestFree(request)
			return
		}
		f.free.Lock()
		defer f.free.Unlock()
		f.idle = append(f.idle, request)
	}()
	defer runtime.KeepAlive(in) // the library reads the tensors in place
	for name, t := range in {
		if err := f.set(request, f.inputs[name], t); err != nil {
			return nil, fmt.Errorf("input %s: %w", name, err)
		}
	}
	if err := f.compute(ctx, request); err != nil {
		return nil, err
	}
	out = make(map[string]runtimes.Tensor, len(f.outputs))
	for _, p := range f.outputs {
		if out[p.name], err = f.result(request, p); err != nil {
			return nil, fmt.Errorf("output %s: %w", p.name, err)
		}
	}
	return out, nil
}

// take returns an idle request, or a new one.
func (f *function) take() (r uintptr, err error) {
	f.free.Lock()
	defer f.free.Unlock()
	if n := len(f.idle); n > 0 {
		r, f.idle = f.idle[n-1], f.idle[:n-1]
		return r, nil
	}
	return r, f.api.check("creating a request", f.api.request(f.compiled, &r))
}

// set passes a tensor in Go memory, which the request refers to until the next call.
func (f *function) set(request uintptr, p port, t runtimes.Tensor) error {
	dims, data := append(slices.Clone(t.Shape), 0), append(t.Data, 0)[:max(1, len(t.Data))]
	if len(t.Data) > 0 {
		data = t.Data
	}
	var tensor uintptr
	if err := f.api.check("creating a tensor", f.api.tensor(p.kind, uintptr(len(t.Shape)), &dims[0], &data[0], &tensor)); err != nil {
		return err
	}
	defer f.api.tensorFree(tensor)
	return f.api.check("setting a tensor", f.api.setInput(request, p.index, tensor))
}

// compute runs a request until it ends or ctx ends.
func (f *function) compute(ctx context.Context, request uintptr) error {
	if err := f.api.check("starting", f.api.start(request)); err != nil {
		return err
	}
	canceled := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		f.api.cancel(request) // fails only for a request that has ended
		close(canceled)
	})
	err := f.api.check("computing", f.api.wait(request))
	if !stop() {
		<-canceled
		return ctx.Err()
	}
	return err
}

// result copies a result.
func (f *function) result(request uintptr, p port) (t runtimes.Tensor, err error) {
	var tensor, data uintptr
	if err := f.api.check("reading a result", f.api.result(request, p.index, &tensor)); err != nil {
		return t, err
	}
	defer f.api.tensorFree(tensor)
	var s shape
	if err := f.api.check("reading a shape", f.api.tensorShape(tensor, &s)); err != nil {
		return t, err
	}
	t.Type, t.Shape = p.typ, f.api.dims(&s)
	size := t.Type.Size()
	for _, d := range t.Shape {
		size *= int(d) // the library has allocated that many
	}
	if err := f.api.check("reading data", f.api.tensorData(tensor, &data)); err != nil {
		return t, err
	}
	t.Data = make([]byte, size)
	if size > 0 {
		copy(t.Data, unsafe.Slice((*byte)(dynlib.Pointer(data)), size))
	}
	return t, t.Check()
}

// fit reports every misfit of the inputs.
func (f *function) fit(in map[string]runtimes.Tensor) error {
	want := map[string]runtimes.Tensor{}
	for name, p := range f.inputs {
		want[name] = runtimes.Tensor{Type: p.typ, Shape: p.shape}
	}
	return runtimes.Misfits(in, want)
}
