package qnnlib

import (
	"fmt"
	"unsafe"

	"mm-abi.org/mm/cmd/mm-native/dynlib"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

// tensor is a Qnn_Tensor_t of form 1 or 2, which have the same fields up to size. Pointers are
// numbers here; the creator keeps their targets alive.
type tensor struct {
	form     uint32 // 1 or 2
	_        uint32
	id       uint32
	_        uint32
	name     uintptr
	kind     uint32 // 0 written by the application, 1 read by it
	format   uint32
	dtype    uint32
	_        uint32
	defined  uint32 // 1: the fields below are valid
	encoding uint32 // 0: scale and offset
	scale    float32
	offset   int32
	_        [24]byte // of other encodings
	rank     uint32
	_        uint32
	dims     uintptr
	memory   uint32 // 0: data is an address
	_        uint32
	data     uintptr
	size     uint32 // bytes of data
	_        uint32
	dynamic  uintptr // form 2: one byte for each dimension
	sparse   [3]uint32
	produced uint8
	_        [3]uint8
}

const (
	tensorBytes = 144
	graphBytes  = 88 // of a QnnSystemContext_GraphInfo_t
	maxRank     = 32
	maxTensors  = 1 << 16 // of a graph
	maxGraphs   = 4096
)

// u32, pointer and version read C memory.
func u32(at uintptr) uint32      { return *(*uint32)(dynlib.Pointer(at)) }
func u64(at uintptr) uint64      { return *(*uint64)(dynlib.Pointer(at)) }
func pointer(at uintptr) uintptr { return *(*uintptr)(dynlib.Pointer(at)) }
func version(at uintptr) (v ask.Version) {
	for i := range v {
		v[i] = u32(at + 4*uintptr(i))
	}
	return v
}

func text(v ask.Version) string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// graph is a graph of a context with copies of its tensors, without data.
type graph struct {
	name            string
	inputs, outputs []port
}

// port is a copy of a tensor and of its targets.
type port struct {
	raw  tensor
	name string
	dims []uint32
}

// wire converts the tensor for mm.
func (p *port) wire() ask.Tensor {
	t := ask.Tensor{ID: p.raw.id, Name: p.name, Version: p.raw.form, DType: p.raw.dtype, Dims: p.dims}
	if p.raw.defined == 1 && p.raw.encoding == 0 {
		t.Scale, t.Offset = p.raw.scale, p.raw.offset
	}
	return t
}

// listed checks the number of elements of a list at an address.
func listed(what string, at uintptr, n, most uint32) error {
	if n > most || n > 0 && at == 0 {
		return fmt.Errorf("bad number of %s: %d", what, n)
	}
	return nil
}

// ports copies a list of tensors.
func ports(at uintptr, n uint32) ([]port, error) {
	if err := listed("tensors", at, n, maxTensors); err != nil {
		return nil, err
	}
	out := make([]port, n)
	for i := range out {
		p := &out[i]
		p.raw = *(*tensor)(dynlib.Pointer(at + uintptr(i)*unsafe.Sizeof(p.raw)))
		p.name = dynlib.String(p.raw.name)
		if p.raw.form != 1 && p.raw.form != 2 {
			return nil, fmt.Errorf("tensor %q: unsupported form %d", p.name, p.raw.form)
		}
		if listed("dimensions", p.raw.dims, p.raw.rank, maxRank) != nil {
			return nil, fmt.Errorf("tensor %q: bad rank %d", p.name, p.raw.rank)
		}
		for d := range p.raw.rank {
			p.dims = append(p.dims, u32(p.raw.dims+4*uintptr(d)))
		}
		p.raw.name, p.raw.dims, p.raw.data, p.raw.size, p.raw.dynamic = 0, 0, 0, 0, 0
	}
	return out, nil
}
