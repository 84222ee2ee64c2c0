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

	"mm-abi.org/mm/core/htp"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

// maxContext is the most bytes of a context that are loaded.
const maxContext = 16 << 30

// read reads bytes of a file and holds them to their digest.
func read(f ask.File) ([]byte, error) {
	if f.Size < 1 || f.Size > maxContext || f.Offset < 0 {
		return nil, fmt.Errorf("%d bytes at %d of %s: from 1 to %d can be read", f.Size, f.Offset, f.Path, int64(maxContext))
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
		return nil, fmt.Errorf("%s has %d bytes, %d at %d were to be read", f.Path, info.Size(), f.Size, f.Offset)
	}
	data := make([]byte, f.Size)
	if _, err := io.ReadFull(io.NewSectionReader(file, f.Offset, f.Size), data); err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.Path, err)
	}
	sum := sha256.Sum256(data)
	if got := "sha256:" + hex.EncodeToString(sum[:]); f.Digest != "" && got != f.Digest {
		return nil, fmt.Errorf("%s has changed: its digest is %s and was %s", f.Path, got, f.Digest)
	}
	return data, nil
}

// function is a graph of a loaded context.
type function struct {
	e       *Engine
	graph   graph
	profile bool

	// The engine's thread has these.
	log, backend, dev, ctx uintptr
	handle                 uintptr // of the graph; 0: closed
	data                   []byte  // the context, which the library may go on reading
	pin                    runtime.Pinner
}

// load gives a context to the HTP.
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
		return nil, fmt.Errorf("the context has no graph %q", o.Graph)
	}
	told := d.Graphs[i]
	if err := errors.Join(same("input", told.Inputs, o.Inputs), same("output", told.Outputs, o.Outputs)); err != nil {
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

// same holds what QnnSystem says of a graph to what mm read of it.
func same(what string, told, read []ask.Tensor) error {
	if len(told) != len(read) {
		return fmt.Errorf("QnnSystem sees %d %ss and mm read %d", len(told), what, len(read))
	}
	for i := range told {
		a, b := told[i], read[i]
		if a.ID != b.ID || a.Name != b.Name || a.DType != b.DType || !slices.Equal(a.Dims, b.Dims) || a.Scale != b.Scale || a.Offset != b.Offset {
			return fmt.Errorf("%s %d: QnnSystem sees %+v and mm read %+v", what, i, a, b)
		}
	}
	return nil
}

// begin makes what a context needs, in the order that QNN asks for.
func (f *function) begin() (err error) {
	t := f.e.htp
	f.log = f.e.logs()
	if f.backend, err = t.made("backendCreate", backendCreate, f.log, 0); err != nil {
		return err
	}
	f.dev, err = t.made("deviceCreate", deviceCreate, f.log, 0)
	if failed := (*Failed)(nil); errors.As(err, &failed) && failed.Code == errNotSupported {
		f.dev, err = 0, nil // this backend has no devices
	}
	if err != nil {
		return err
	}
	made := new(uintptr)
	if err = t.call("contextCreateFromBinary", contextFromBinary, f.backend, f.dev, 0, uintptr(unsafe.Pointer(&f.data[0])), uintptr(len(f.data)), uintptr(unsafe.Pointer(made)), 0); err != nil {
		return err
	}
	f.ctx = *made
	name := append([]byte(f.graph.name), 0)
	f.handle, err = t.made("graphRetrieve", graphRetrieve, f.ctx, uintptr(unsafe.Pointer(&name[0])))
	runtime.KeepAlive(name)
	return err
}

// Close frees the context.
func (f *function) Close() error { return f.e.thread.do(context.Background(), f.end) }

// end gives back what begin made.
func (f *function) end() {
	t := f.e.htp
	t.free(contextFree, f.ctx, 0)
	t.free(deviceFree, f.dev)
	t.free(backendFree, f.backend)
	t.free(logFree, f.log)
	f.handle, f.ctx, f.dev, f.backend, f.log, f.data = 0, 0, 0, 0, 0, nil
	f.pin.Unpin()
}

// Run computes. Inputs are as the graph has them, integers where it is
// quantised.
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

// first is the address of a list, which its caller has pinned; 0 of none.
func first(list []tensor) uintptr {
	if len(list) == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(&list[0]))
}

// inputs lays out what is given in the graph's order.
func (f *function) inputs(in map[string]runtimes.Tensor, pin *runtime.Pinner) ([]tensor, error) {
	list := make([]tensor, len(f.graph.inputs))
	left := maps.Clone(in)
	for i := range f.graph.inputs {
		p := &f.graph.inputs[i]
		t, ok := in[p.name]
		if !ok {
			return nil, fmt.Errorf("input %s is missing", p.name)
		}
		delete(left, p.name)
		want, err := p.empty()
		if err != nil {
			return nil, err
		}
		if t.Type != want.Type || !slices.Equal(t.Shape, want.Shape) || int64(len(t.Data)) != int64(p.bytes()) {
			return nil, fmt.Errorf("input %s is %s %v, the graph wants %s %v", p.name, t.Type, t.Shape, want.Type, want.Shape)
		}
		list[i] = p.with(t.Data, pin)
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		return nil, fmt.Errorf("the graph has no input %s", name)
	}
	if len(list) > 0 {
		pin.Pin(&list[0])
	}
	return list, nil
}

// outputs makes room for what comes of a run.
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

// bytes is the size of a port's data; what cannot be is 0.
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

// empty is a port's tensor without data.
func (p *port) empty() (runtimes.Tensor, error) {
	var t runtimes.Tensor
	if d, ok := onnx.DTypeOf(htp.DType(p.raw.dtype).ONNX()); ok {
		t.Type = runtimes.ElemOf(d)
	}
	for _, d := range p.dims {
		t.Shape = append(t.Shape, int64(d))
	}
	if t.Type == "" || p.bytes() == 0 {
		return t, fmt.Errorf("%s: elements %s of the shape %v are not carried", p.name, htp.DType(p.raw.dtype), p.dims)
	}
	return t, nil
}

// with is a port's tensor as the library takes it, with data where it lies.
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
