package ort

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"mm-abi.org/mm/cmd/mm-native/dl"
	"mm-abi.org/mm/runtimes"
)

// elems are the element types by ONNX's numbers. The library's own numbers,
// which it gives for results, are the same up to 23.
func elems() map[int32]runtimes.Elem {
	return map[int32]runtimes.Elem{
		1: runtimes.Float32, 2: runtimes.Uint8, 3: runtimes.Int8, 4: runtimes.Uint16, 5: runtimes.Int16, 6: runtimes.Int32,
		7: runtimes.Int64, 9: runtimes.Bool, 10: runtimes.Float16, 11: runtimes.Float64, 12: runtimes.Uint32, 13: runtimes.Uint64,
		16: runtimes.BFloat16,
	}
}

func number(t runtimes.Elem) int32 {
	for n, e := range elems() {
		if e == t {
			return n
		}
	}
	return 0
}

// tensor copies a tensor into a value of the library.
func (e *Engine) tensor(t runtimes.Tensor) (uintptr, error) {
	if err := t.Check(); err != nil {
		return 0, err
	}
	shape := append(slices.Clone(t.Shape), 0)
	v, err := e.api.made(createTensor, e.allocator, uintptr(unsafe.Pointer(&shape[0])), uintptr(len(t.Shape)), uintptr(number(t.Type)))
	if err != nil {
		return 0, err
	}
	if len(t.Data) > 0 {
		at, err := e.api.made(tensorData, v)
		if err != nil {
			e.api.release(releaseValue, v)
			return 0, err
		}
		copy(unsafe.Slice((*byte)(dl.Pointer(at)), len(t.Data)), t.Data)
	}
	return v, nil
}

// result copies a value of the library into a tensor.
func (e *Engine) result(v uintptr) (runtimes.Tensor, error) {
	var t runtimes.Tensor
	if v == 0 {
		return t, errors.New("there is none")
	}
	kind := new(int32)
	if err := e.api.call(valueType, v, uintptr(unsafe.Pointer(kind))); err != nil || *kind != valueTensor {
		return t, errors.Join(err, fmt.Errorf("it is no tensor (ONNX type %d)", *kind))
	}
	info, err := e.api.made(tensorTypeAndShape, v)
	if err != nil {
		return t, err
	}
	defer e.api.release(releaseTensorInfo, info)
	if t.Type, t.Shape, err = e.shape(info); err != nil {
		return t, err
	}
	size := int64(t.Type.Size())
	for _, d := range t.Shape {
		size *= d // the library holds that much
	}
	if size > 0 {
		at, err := e.api.made(tensorData, v)
		if err != nil {
			return t, err
		}
		t.Data = slices.Clone(unsafe.Slice((*byte)(dl.Pointer(at)), size))
	}
	return t, t.Check()
}

// shape reads element type and dimensions.
func (e *Engine) shape(info uintptr) (typ runtimes.Elem, dims []int64, err error) {
	n, count := new(int32), new(uintptr)
	if err := errors.Join(e.api.call(tensorElementType, info, uintptr(unsafe.Pointer(n))), e.api.call(dimensionsCount, info, uintptr(unsafe.Pointer(count)))); err != nil {
		return "", nil, err
	}
	typ, ok := elems()[*n]
	if !ok {
		return "", nil, fmt.Errorf("elements of ONNX type %d are not carried", *n)
	}
	if *count > 0 {
		dims = make([]int64, *count)
		err = e.api.call(dimensions, info, uintptr(unsafe.Pointer(&dims[0])), *count)
	}
	return typ, dims, err
}

// describe asks the session for its inputs and outputs.
func (f *function) describe() error {
	ins, outs := new(uintptr), new(uintptr)
	a := f.e.api
	if err := errors.Join(a.call(sessionInputCount, f.session, uintptr(unsafe.Pointer(ins))), a.call(sessionOutputCount, f.session, uintptr(unsafe.Pointer(outs)))); err != nil {
		return err
	}
	f.inputs = make(map[string]input)
	for i := range *ins {
		name, err := f.name(sessionInputName, i)
		if err == nil {
			f.inputs[name], err = f.input(i)
		}
		if err != nil {
			return fmt.Errorf("input %d %s: %w", i, name, err)
		}
	}
	for i := range *outs {
		name, err := f.name(sessionOutputName, i)
		if err != nil {
			return err
		}
		f.outputs = append(f.outputs, name)
	}
	if len(f.outputs) == 0 {
		return errors.New("the model has no outputs")
	}
	return nil
}

func (f *function) name(which slot, i uintptr) (string, error) {
	p, err := f.e.api.made(which, f.session, i, f.e.allocator)
	if err != nil {
		return "", err
	}
	text := dl.String(p)
	return text, f.e.api.call(allocatorFree, f.e.allocator, p)
}

func (f *function) input(i uintptr) (in input, err error) {
	info, err := f.e.api.made(sessionInputTypeInfo, f.session, i)
	if err != nil {
		return in, err
	}
	defer f.e.api.release(releaseTypeInfo, info)
	shape, err := f.e.api.made(castTypeInfo, info) // part of info
	if err != nil || shape == 0 {
		return in, errors.Join(err, errors.New("it is no tensor"))
	}
	in.typ, in.dims, err = f.e.shape(shape)
	return in, err
}

// fit says all that is wrong with inputs.
func (f *function) fit(in map[string]runtimes.Tensor) error {
	var faults []error
	fail := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(in)) {
		want, ok := f.inputs[name]
		t := in[name]
		switch {
		case !ok:
			fail("the model has no input %s; it has %v", name, slices.Sorted(maps.Keys(f.inputs)))
		case t.Check() != nil:
			fail("input %s: %w", name, t.Check())
		case t.Type != want.typ || !fits(t.Shape, want.dims):
			fail("input %s is %s %v, the model wants %s %v", name, t.Type, t.Shape, want.typ, want.dims)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.inputs)) {
		if _, ok := in[name]; !ok {
			fail("input %s is missing", name)
		}
	}
	return errors.Join(faults...)
}

func fits(have, want []int64) bool {
	if len(have) != len(want) {
		return false
	}
	for i, d := range want {
		if d >= 0 && have[i] != d {
			return false
		}
	}
	return true
}
