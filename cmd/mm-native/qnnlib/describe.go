package qnnlib

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"mm-abi.org/mm/cmd/mm-native/dynlib"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

// described is QnnSystem's description of a context, with its graphs in the form for the backend.
type described struct {
	ask.Description
	graphs []graph
}

// describe returns QnnSystem's description of a context, without pointers into its memory.
func (e *Engine) describe(data []byte) (d described, err error) {
	h, err := e.system.create("systemContextCreate", systemCreate)
	if err != nil {
		return d, err
	}
	defer e.system.free(systemFree, h)
	info, size := new(uintptr), new(uint64)
	var pin runtime.Pinner
	pin.Pin(&data[0])
	defer pin.Unpin()
	err = e.system.call("systemContextGetBinaryInfo", systemBinaryInfo, h, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)), uintptr(unsafe.Pointer(info)), uintptr(unsafe.Pointer(size)))
	if err == nil && *info == 0 {
		err = errors.New("no description")
	}
	if err != nil {
		return d, fmt.Errorf("describing the context: %w", err)
	}
	return binaryInfo(*info)
}

// binaryInfo reads a QnnSystemContext_BinaryInfo_t: a form and, at offset 8, the fields of the
// form.
func binaryInfo(at uintptr) (d described, err error) {
	form, u := u32(at), at+8
	d.Backend, d.Build, d.Core, d.API = u32(u), dynlib.String(pointer(u+8)), version(u+16), version(u+28)
	var graphs uintptr
	var n uint32
	switch form {
	case 1:
		d.Blob, n, graphs = version(u+60), u32(u+112), pointer(u+120)
	case 3:
		d.Blob, n, graphs, d.SoC = version(u+48), u32(u+88), pointer(u+96), u32(u+128)
	default:
		return d, fmt.Errorf("unsupported form %d of the context's description: want 1 or 3", form)
	}
	if err := listed("graphs", graphs, n, maxGraphs); err != nil {
		return d, err
	}
	for i := range uintptr(n) {
		g, err := graphInfo(graphs + i*graphBytes)
		if err != nil {
			return d, err
		}
		d.graphs = append(d.graphs, g)
		d.Graphs = append(d.Graphs, g.wire())
	}
	return d, nil
}

// graphInfo reads a graph; the forms 1 to 3 have a common prefix.
func graphInfo(at uintptr) (g graph, err error) {
	if form := u32(at); form < 1 || form > 3 {
		return g, fmt.Errorf("unsupported form %d of a graph's description: want 1 to 3", form)
	}
	g.name = dynlib.String(pointer(at + 8))
	if g.inputs, err = ports(pointer(at+24), u32(at+16)); err == nil {
		g.outputs, err = ports(pointer(at+40), u32(at+32))
	}
	if err != nil {
		err = fmt.Errorf("graph %q: %w", g.name, err)
	}
	return g, err
}

// wire converts the graph for mm.
func (g *graph) wire() ask.Graph {
	out := ask.Graph{Name: g.name, Inputs: []ask.Tensor{}, Outputs: []ask.Tensor{}}
	for i := range g.inputs {
		out.Inputs = append(out.Inputs, g.inputs[i].wire())
	}
	for i := range g.outputs {
		out.Outputs = append(out.Outputs, g.outputs[i].wire())
	}
	return out
}
