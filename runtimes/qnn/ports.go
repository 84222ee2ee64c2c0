package qnn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes"
)

// port is an input or an output with its outer form, for callers, and its inner form, in
// the graph.
type port struct {
	name         string
	outer, inner runtimes.Elem
	shape        []int64
	scale        float64 // of quantized numbers: (q + offset) · scale
	offset       int64
}

// ports are the ports of a graph.
type ports struct{ in, out []port }

// portsOf joins a graph's tensors to the ports that the module declares. An undeclared
// tensor is floating point if the graph has integers with one scale, and otherwise has
// the graph's type.
func portsOf(g htp.Graph, m *modules.Manifest) (p ports, err error) {
	var ins, outs []abi.Port
	if m != nil {
		ins, outs = slices.Clone(m.Inputs), m.Outputs
		for i := range ins { // the module declares inputs before preprocessing
			if _, prepared := m.Preprocess[ins[i].Name]; prepared {
				ins[i].DType = ""
			}
		}
	}
	var first, second error
	p.in, first = side("input", g.Inputs, ins, m != nil)
	p.out, second = side("output", g.Outputs, outs, m != nil)
	return p, errors.Join(first, second)
}

func side(what string, tensors []htp.Tensor, declared []abi.Port, strict bool) ([]port, error) {
	var out []port
	var faults []error
	for _, t := range tensors {
		p, err := portOf(t)
		i := slices.IndexFunc(declared, func(d abi.Port) bool { return d.Name == t.Name })
		switch {
		case err != nil:
		case i >= 0:
			err = p.declare(declared[i])
		case strict && what == "input":
			err = errors.New("not declared by the module")
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s %q: %w", what, t.Name, err))
		}
		out = append(out, p)
	}
	for _, d := range declared {
		if !slices.ContainsFunc(tensors, func(t htp.Tensor) bool { return t.Name == d.Name }) {
			faults = append(faults, fmt.Errorf("%s %q is declared by the module but missing in the graph", what, d.Name))
		}
	}
	return out, errors.Join(faults...)
}

// portOf returns the port of an undeclared tensor.
func portOf(t htp.Tensor) (port, error) {
	p := port{name: t.Name}
	for i, d := range t.Dims {
		if d == 0 || i < len(t.Dynamic) && t.Dynamic[i] {
			return p, fmt.Errorf("dimensions %v are not fixed", t.Dims)
		}
		p.shape = append(p.shape, int64(d))
	}
	d, ok := onnx.DTypeOf(t.DType.ONNX())
	if p.inner = runtimes.ElemOf(d); !ok || p.inner == "" {
		return p, fmt.Errorf("unsupported element type %s", t.DType)
	}
	p.outer = p.inner
	if t.DType.Fixed() && t.Quant.Encoding == htp.ScaleOffset {
		p.scale, p.offset = float64(t.Quant.Scales[0]), int64(t.Quant.Offsets[0])
		if !(p.scale > 0) || math.IsInf(p.scale, 0) {
			return p, fmt.Errorf("bad scale %g", p.scale)
		}
		p.outer = runtimes.Float32
	}
	return p, nil
}

// declare sets the type that the module declares.
func (p *port) declare(d abi.Port) error {
	want := runtimes.Elem(d.DType)
	switch {
	case want == "" || want == p.outer:
	case want == p.inner:
		p.outer = want
	case want == runtimes.Float32 && p.inner == runtimes.Float16, want == runtimes.Int64 && p.inner == runtimes.Int32:
		p.outer = want
	default:
		return fmt.Errorf("cannot convert between %s, declared by the module, and %s of the graph", want, p.inner)
	}
	return nil
}

// enter converts a caller's tensors to those of the graph and reports every misfit.
func (p ports) enter(in map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	var faults []error
	out := make(map[string]runtimes.Tensor, len(in))
	left := maps.Clone(in)
	for _, port := range p.in {
		t, ok := in[port.name]
		delete(left, port.name)
		err := errors.New("missing")
		if ok {
			if err = port.fit(t); err == nil {
				out[port.name], err = port.enter(t)
			}
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("input %s: %w", port.name, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		faults = append(faults, fmt.Errorf("unknown input %s", name))
	}
	return out, errors.Join(faults...)
}

func (p *port) fit(t runtimes.Tensor) error {
	if err := t.Check(); err != nil {
		return err
	}
	if t.Type != p.outer || !slices.Equal(t.Shape, p.shape) {
		return fmt.Errorf("got %s %v, want %s %v", t.Type, t.Shape, p.outer, p.shape)
	}
	return nil
}

// enter converts a caller's tensor to the graph's.
func (p *port) enter(t runtimes.Tensor) (runtimes.Tensor, error) {
	if p.outer == p.inner {
		return t, nil
	}
	size, n := p.inner.Size(), len(t.Data)/p.outer.Size()
	out := runtimes.Tensor{Type: p.inner, Shape: t.Shape, Data: make([]byte, n*size)}
	for i := range n {
		to := out.Data[i*size:]
		switch {
		case p.outer == runtimes.Int64:
			v := int64(binary.LittleEndian.Uint64(t.Data[8*i:]))
			if v != int64(int32(v)) {
				return out, fmt.Errorf("%d does not fit into 32 bits", v)
			}
			binary.LittleEndian.PutUint32(to, uint32(v))
		case p.inner == runtimes.Float16:
			binary.LittleEndian.PutUint16(to, tensor.F32ToF16(float(t.Data, i)))
		default:
			v := float64(float(t.Data, i))
			if math.IsNaN(v) {
				return out, fmt.Errorf("element %d is NaN, the graph has integers", i)
			}
			put(to, p.inner, int64(math.RoundToEven(min(max(v/p.scale, -1<<40), 1<<40)))-p.offset)
		}
	}
	return out, nil
}

func float(b []byte, i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])) }

// put writes an integer, clamped to the range of the type.
func put(to []byte, e runtimes.Elem, v int64) {
	switch e {
	case runtimes.Uint8:
		to[0] = uint8(min(max(v, 0), math.MaxUint8))
	case runtimes.Int8:
		to[0] = uint8(int8(min(max(v, math.MinInt8), math.MaxInt8)))
	case runtimes.Uint16:
		binary.LittleEndian.PutUint16(to, uint16(min(max(v, 0), math.MaxUint16)))
	case runtimes.Int16:
		binary.LittleEndian.PutUint16(to, uint16(int16(min(max(v, math.MinInt16), math.MaxInt16))))
	default:
		binary.LittleEndian.PutUint32(to, uint32(int32(min(max(v, math.MinInt32), math.MaxInt32))))
	}
}

// get reads an integer.
func get(b []byte, e runtimes.Elem) int64 {
	switch e {
	case runtimes.Uint8:
		return int64(b[0])
	case runtimes.Int8:
		return int64(int8(b[0]))
	case runtimes.Uint16:
		return int64(binary.LittleEndian.Uint16(b))
	case runtimes.Int16:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	}
	return int64(int32(binary.LittleEndian.Uint32(b)))
}

// leave converts the graph's results to the types that the module declares.
func (p ports) leave(out map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	for _, port := range p.out {
		t, ok := out[port.name]
		if !ok || t.Type != port.inner || !slices.Equal(t.Shape, port.shape) {
			return nil, fmt.Errorf("output %s: got %s %v, want %s %v", port.name, t.Type, t.Shape, port.inner, port.shape)
		}
		out[port.name] = port.leave(t)
	}
	return out, nil
}

// leave converts a tensor of the graph to the caller's.
func (p *port) leave(t runtimes.Tensor) runtimes.Tensor {
	if p.outer == p.inner {
		return t
	}
	size, wide := p.inner.Size(), p.outer.Size()
	n := len(t.Data) / size
	out := runtimes.Tensor{Type: p.outer, Shape: t.Shape, Data: make([]byte, n*wide)}
	for i := range n {
		from, to := t.Data[i*size:], out.Data[i*wide:]
		switch {
		case p.outer == runtimes.Int64:
			binary.LittleEndian.PutUint64(to, uint64(get(from, p.inner)))
		case p.inner == runtimes.Float16:
			binary.LittleEndian.PutUint32(to, math.Float32bits(tensor.F16ToF32(binary.LittleEndian.Uint16(from))))
		default:
			binary.LittleEndian.PutUint32(to, math.Float32bits(float32(float64(get(from, p.inner)+p.offset)*p.scale)))
		}
	}
	return out
}
