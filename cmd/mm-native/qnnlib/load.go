package qnnlib

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

// maxContext bounds the bytes of a context.
const maxContext = 16 << 30

// read reads a span of a file and verifies its digest.
func read(f ask.File) ([]byte, error) {
	if f.Size < 1 || f.Size > maxContext || f.Offset < 0 {
		return nil, fmt.Errorf("bad span of %[3]s: %[1]d bytes at %[2]d, want 1 to %[4]d", f.Size, f.Offset, f.Path, int64(maxContext))
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || f.Offset > info.Size()-f.Size {
		return nil, fmt.Errorf("file truncated: %s has %d bytes, want %d at %d", f.Path, info.Size(), f.Size, f.Offset)
	}
	data := make([]byte, f.Size)
	if _, err := io.ReadFull(io.NewSectionReader(file, f.Offset, f.Size), data); err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.Path, err)
	}
	sum := sha256.Sum256(data)
	if got := "sha256:" + hex.EncodeToString(sum[:]); f.Digest != "" && got != f.Digest {
		return nil, fmt.Errorf("%s: digest mismatch: got %s, want %s", f.Path, got, f.Digest)
	}
	return data, nil
}

// function is a graph of a loaded context.
type function struct {
	e       *Engine
	graph   graph
	profile bool

	// Used on the engine's thread only.
	log, backend, dev, ctx uintptr
	handle                 uintptr // of the graph; 0: closed
	data                   []byte  // the context, which the library may keep reading
	pin                    runtime.Pinner
}

// load loads a context on the HTP.
func (e *Engine) load(o ask.Open) (*function, error) {
	data, err := read(o.File)
	if err != nil {
		return nil, err
	}
	d, err := e.describe(data)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(d.graphs, func(g graph) bool { return g.name == o.Graph })
	if i < 0 {
		return nil, fmt.Errorf("unknown graph %q in the context", o.Graph)
	}
	g := d.Graphs[i]
	if err := errors.Join(same("input", g.Inputs, o.Inputs), same("output", g.Outputs, o.Outputs)); err != nil {
		return nil, err
	}
	f := &function{e: e, graph: d.graphs[i], profile: o.Profile, data: data}
	f.pin.Pin(&data[0])
	if err := f.begin(); err != nil {
		f.end()
		return nil, err
	}
	return f, nil
}

// same compares QnnSystem's description of a graph with that of mm.
func same(what string, system, parsed []ask.Tensor) error {
	if len(system) != len(parsed) {
		return fmt.Errorf("number of %[2]ss differs: QnnSystem reads %[1]d, mm %[3]d", len(system), what, len(parsed))
	}
	for i := range system {
		a, b := system[i], parsed[i]
		if a.ID != b.ID || a.Name != b.Name || a.DType != b.DType || !slices.Equal(a.Dims, b.Dims) || a.Scale != b.Scale || a.Offset != b.Offset {
			return fmt.Errorf("%s %d differs: QnnSystem reads %+v, mm %+v", what, i, a, b)
		}
	}
	return nil
}

// begin creates the objects that a context needs, in QNN's order.
func (f *function) begin() (err error) {
	t := f.e.htp
	f.log = f.e.logs()
	if f.backend, err = t.create("backendCreate", backendCreate, f.log, 0); err != nil {
		return err
	}
	f.dev, err = t.create("deviceCreate", deviceCreate, f.log, 0)
	if failed := (*Failed)(nil); errors.As(err, &failed) && failed.Code == errNotSupported {
		f.dev, err = 0, nil // the backend has no devices
	}
	if err != nil {
		return err
	}
	create := new(uintptr)
	if err = t.call("contextCreateFromBinary", contextFromBinary, f.backend, f.dev, 0, uintptr(unsafe.Pointer(&f.data[0])), uintptr(len(f.data)), uintptr(unsafe.Pointer(create)), 0); err != nil {
		return err
	}
	f.ctx = *create
	name := append([]byte(f.graph.name), 0)
	f.handle, err = t.create("graphRetrieve", graphRetrieve, f.ctx, uintptr(unsafe.Pointer(&name[0])))
	runtime.KeepAlive(name)
	return err
}

// Close frees the context.
func (f *function) Close() error { return f.e.thread.do(context.Background(), f.end) }

// end frees the objects of begin.
func (f *function) end() {
	t := f.e.htp
	t.free(contextFree, f.ctx, 0)
	t.free(deviceFree, f.dev)
	t.free(backendFree, f.backend)
	t.free(logFree, f.log)
	f.handle, f.ctx, f.dev, f.backend, f.log, f.data = 0, 0, 0, 0, 0, nil
	f.pin.Unpin()
}

// Run computes. Tensors have the graph's types: integers if it is quantized.
func (f *function) Run(ctx context.Context, in map[string]runtimes.Tensor) (out map[string]runtimes.Tensor, err error) {
	if queued := f.e.thread.do(ctx, func() { out, err = f.run(in) }); queued != nil {
		return nil, queued
	}
	return out, errors.Join(err, ctx.Err())
}

func (f *function) run(in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	if f.handle == 0 {
		return nil, fmt.Errorf("the model is %w", runtimes.ErrClosed)
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	given, err := f.inputs(in, &pin)
	if err != nil {
		return nil, err
	}
	wanted, out, err := f.outputs(&pin)
	if err != nil {
		return nil, err
	}
	profile := f.e.profiling(f)
	defer f.e.htp.free(profileFree, profile)
	if err := f.e.htp.call("graphExecute", graphExecute, f.handle, first(given), uintptr(len(given)), first(wanted), uintptr(len(wanted)), profile, 0); err != nil {
		return nil, err
	}
	f.e.gather(profile)
	return out, nil
}

// first returns the address of a list, which the caller has pinned, or 0 if it is empty.
func first(list []tensor) uintptr {
	if len(list) == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(&list[0]))
}

// inputs lays out tensors in the graph's order.
func (f *function) inputs(in map[string]runtimes.Tensor, pin *runtime.Pinner) ([]tensor, error) {
	list := make([]tensor, len(f.graph.inputs))
	left := maps.Clone(in)
	for i := range f.graph.inputs {
		p := &f.graph.inputs[i]
		t, ok := in[p.name]
		if !ok {
			return nil, fmt.Errorf("missing input %s", p.name)
		}
		delete(left, p.name)
		want, err := p.empty()
		if err != nil {
			return nil, err
		}
		if t.Type != want.Type || !slices.Equal(t.Shape, want.Shape) || int64(len(t.Data)) != int64(p.bytes()) {
			return nil, fmt.Errorf("input %s: got %s %v, want %s %v", p.name, t.Type, t.Shape, want.Type, want.Shape)
		}
		list[i] = p.with(t.Data, pin)
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		return nil, fmt.Errorf("unknown input %s", name)
	}
	if len(list) > 0 {
		pin.Pin(&list[0])
	}
	return list, nil
}

// outputs allocates the results of a run.
func (f *function) outputs(pin *runtime.Pinner) ([]tensor, map[string]runtimes.Tensor, error) {
	list := make([]tensor, len(f.graph.outputs))
	out := make(map[string]runtimes.Tensor, len(list))
	for i := range f.graph.outputs {
		p := &f.graph.outputs[i]
		t, err := p.empty()
		if err != nil {
			return nil, nil, err
		}
		t.Data = make([]byte, p.bytes())
		list[i] = p.with(t.Data, pin)
		out[p.name] = t
	}
	if len(list) > 0 {
		pin.Pin(&list[0])
	}
	return list, out, nil
}

// bytes returns the size of a port's data, or 0 if it is invalid.
func (p *port) bytes() uint32 {
	n := int64(1)
	for _, d := range p.dims {
		if d == 0 || n > 1<<31/int64(d) {
			return 0
		}
		n *= int64(d)
	}
	size, ok := htp.DType(p.raw.dtype).Size(n)
	if !ok || size > 1<<31 {
		return 0
	}
	return uint32(size)
}

// empty returns the tensor of a port without data.
func (p *port) empty() (runtimes.Tensor, error) {
	var t runtimes.Tensor
	if d, ok := onnx.DTypeOf(htp.DType(p.raw.dtype).ONNX()); ok {
		t.Type = runtimes.ElemOf(d)
	}
	for _, d := range p.dims {
		t.Shape = append(t.Shape, int64(d))
	}
	if t.Type == "" || p.bytes() == 0 {
		return t, fmt.Errorf("%s: unsupported type %s or shape %v", p.name, htp.DType(p.raw.dtype), p.dims)
	}
	return t, nil
}

// with returns a port's tensor for the library, with data in place.
func (p *port) with(data []byte, pin *runtime.Pinner) tensor {
	t := p.raw
	name := append([]byte(p.name), 0)
	pin.Pin(&name[0])
	t.name = uintptr(unsafe.Pointer(&name[0]))
	if len(p.dims) > 0 {
		pin.Pin(&p.dims[0])
		t.dims = uintptr(unsafe.Pointer(&p.dims[0]))
	}
	pin.Pin(&data[0])
	t.memory, t.data, t.size = 0, uintptr(unsafe.Pointer(&data[0])), uint32(len(data))
	return t
}
