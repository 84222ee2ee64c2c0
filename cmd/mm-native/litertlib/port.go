package litertlib

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"mm-abi.org/mm/cmd/mm-native/dynlib"
	"mm-abi.org/mm/runtimes"
)

// port is an input or an output with its buffer.
type port struct {
	name   string
	typ    runtimes.Elem
	shape  []int64
	size   int // bytes
	buffer uintptr
}

// flagOf returns the address of a flag, which the library keeps.
func flagOf(f *atomic.Uint32) *uint32 { return (*uint32)(unsafe.Pointer(f)) }

// ports describes the inputs or the outputs. On an error it returns those with
// buffers, to be freed.
func (f *function) ports(s side, signature uintptr) (list []port, err error) {
	var n uintptr
	if err := check("counting", s.count(signature, &n)); err != nil {
		return nil, err
	}
	for i := range n {
		p, err := f.port(s, signature, i)
		if p.buffer != 0 {
			list = append(list, p)
		}
		if err != nil {
			return list, fmt.Errorf("%d: %w", i, err)
		}
	}
	return list, nil
}

func (f *function) port(s side, signature, i uintptr) (p port, err error) {
	a := f.e.api
	var name, tensor, requirements uintptr
	if err := check("reading a name", s.name(signature, i, &name)); err != nil {
		return p, err
	}
	p.name = dynlib.String(name)
	if err := check("reading a tensor", s.tensor(signature, i, &tensor)); err != nil {
		return p, err
	}
	var t ranked
	if err := check("reading a shape", a.tensorType(tensor, &t)); err != nil {
		return p, err
	}
	if p.typ = elems[t.elem]; p.typ == "" {
		return p, fmt.Errorf("%s: unsupported element type %d", p.name, t.elem)
	}
	if p.shape, p.size, err = t.dimensions(p.typ.Size()); err != nil {
		return p, fmt.Errorf("%s: %w", p.name, err)
	}
	if err := check("reading the requirements of a buffer", s.requirements(f.compiled, 0, i, &requirements)); err != nil {
		return p, err
	}
	if err := check("creating a buffer", a.buffer(f.e.environment, &t, requirements, &p.buffer)); err != nil {
		return p, err
	}
	var size uintptr
	if err := check("reading the size of a buffer", a.bufferSize(p.buffer, &size)); err != nil {
		return p, err
	}
	if int(size) != p.size {
		return p, fmt.Errorf("%s: a buffer of %d bytes for %s %v", p.name, size, p.typ, p.shape)
	}
	return p, nil
}

// maxBytes bounds a tensor; the memory of the process may be bounded further.
const maxBytes = 1 << 32

// dimensions returns the shape of a tensor and its bytes.
func (t *ranked) dimensions(size int) ([]int64, int, error) {
	rank := int(t.rank & 0x7F)
	if rank > maxRank {
		return nil, 0, fmt.Errorf("%d dimensions, limit %d", rank, maxRank)
	}
	shape := []int64{}
	for _, d := range t.dims[:rank] {
		if d < 0 {
			return nil, 0, fmt.Errorf("shape %v has open sizes, want a fixed one", t.dims[:rank])
		}
		shape = append(shape, int64(d))
		if size *= int(d); size > maxBytes {
			return nil, 0, fmt.Errorf("shape %v exceeds %d bytes", t.dims[:rank], maxBytes)
		}
	}
	return shape, size, nil
}

// fill writes an input.
func (f *function) fill(p port, data []byte) error {
	return f.locked(p, writable, func(memory []byte) { copy(memory, data) })
}

// read copies an output.
func (f *function) read(p port) (t runtimes.Tensor, err error) {
	t = runtimes.Tensor{Type: p.typ, Shape: slices.Clone(p.shape), Data: make([]byte, p.size)}
	err = f.locked(p, readable, func(memory []byte) { copy(t.Data, memory) })
	return t, err
}

// locked passes the memory of a buffer.
func (f *function) locked(p port, mode int32, use func([]byte)) error {
	if p.size == 0 {
		return nil
	}
	var address uintptr
	if err := check("locking a buffer", f.e.api.lock(p.buffer, &address, mode)); err != nil {
		return err
	}
	use(unsafe.Slice((*byte)(dynlib.Pointer(address)), p.size))
	return check("unlocking a buffer", f.e.api.unlock(p.buffer))
}
