package runtimes

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/modules"
)

// OutputTypes returns the types of the outputs in a manifest, which may be nil.
func OutputTypes(m *modules.Manifest) map[string]Elem {
	out := map[string]Elem{}
	if m != nil {
		for _, p := range m.Outputs {
			out[p.Name] = Elem(p.DType)
		}
	}
	return out
}

// Retype returns f with other types of its inputs and outputs. A file for another
// runtime has fewer types than the module that it was made of: 32-bit floats for
// 16-bit ones, 32-bit integers for others. Inputs are converted to the types in,
// outputs to the types out; tensors that are absent there stay as they are. Floats
// become floats and integers integers; an integer outside the range of the other
// type is an error. Other conversions are left to f, which refuses them.
func Retype(f Function, in, out map[string]Elem) Function { return &retyped{f, in, out} }

type retyped struct {
	Function
	in, out map[string]Elem
}

// Run implements Function.
func (r *retyped) Run(ctx context.Context, in map[string]Tensor) (map[string]Tensor, error) {
	in, err := converted(in, r.in, "input")
	if err != nil {
		return nil, err
	}
	out, err := r.Function.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	return converted(out, r.out, "output")
}

// converted returns tensors in other types.
func converted(list map[string]Tensor, to map[string]Elem, what string) (map[string]Tensor, error) {
	out := make(map[string]Tensor, len(list))
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(list)) {
		t, want := list[name], to[name]
		out[name] = t
		if want == "" || want == t.Type || t.Check() != nil { // the function reports an invalid tensor
			continue
		}
		data, err := convert(t, want)
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("%s %s: %w", what, name, err))
		case data != nil:
			out[name] = Tensor{Type: want, Shape: t.Shape, Data: data}
		}
	}
	return out, errors.Join(faults...)
}

// convert returns the elements of a tensor in another type, or nil if the types are
// not both floats or both integers.
func convert(t Tensor, to Elem) ([]byte, error) {
	from, read := floats[t.Type]
	if into, write := floats[to]; read && write {
		x := make([]float32, len(t.Data)/t.Type.Size())
		quant.Dequantize(x, t.Data, from)
		data := make([]byte, len(x)*to.Size())
		quant.Quantize(data, x, into)
		return data, nil
	}
	low, high, ok := bounds(to)
	if _, _, from := bounds(t.Type); !from || !ok {
		return nil, nil
	}
	data := make([]byte, 0, len(t.Data)/t.Type.Size()*to.Size())
	for b := t.Data; len(b) > 0; b = b[t.Type.Size():] {
		v, fits := integer(b, t.Type)
		if !fits || v < low || v > high {
			return nil, fmt.Errorf("%d exceeds the range of %s", v, to)
		}
		data = append(data, binary.LittleEndian.AppendUint64(nil, uint64(v))[:to.Size()]...)
	}
	return data, nil
}

// floats are the types of floats in core/tensor.
var floats = map[Elem]tensor.Type{Float16: tensor.F16, BFloat16: tensor.BF16, Float32: tensor.F32}

// bounds returns the range of an integer type within int64.
func bounds(e Elem) (low, high int64, ok bool) {
	switch e {
	case Int8, Int16, Int32, Int64:
		high = math.MaxInt64 >> (64 - e.Bits())
		return -high - 1, high, true
	case Uint8, Uint16, Uint32:
		return 0, 1<<e.Bits() - 1, true
	case Uint64:
		return 0, math.MaxInt64, true
	case Bool:
		return 0, 1, true
	}
	return 0, 0, false
}

// integer reads an element; it reports false for one above the range of int64.
func integer(b []byte, e Elem) (int64, bool) {
	le := binary.LittleEndian
	switch e {
	case Int8:
		return int64(int8(b[0])), true
	case Int16:
		return int64(int16(le.Uint16(b))), true
	case Uint16:
		return int64(le.Uint16(b)), true
	case Int32:
		return int64(int32(le.Uint32(b))), true
	case Uint32:
		return int64(le.Uint32(b)), true
	case Int64, Uint64:
		v := int64(le.Uint64(b))
		return v, e == Int64 || v >= 0
	}
	return int64(b[0]), true
}
