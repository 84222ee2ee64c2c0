package ortlib

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"mm-abi.org/mm/cmd/mm-native/dynlib"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
)

// elemOf returns the element type for the library's own number, which it uses for inputs and
// results, and which differs from ONNX's from 23 on.
func elemOf(n int32) runtimes.Elem {
	switch n {
	case 24:
		return runtimes.Uint2
	case 25:
		return runtimes.Int2
	case 26:
		return runtimes.Float8E8M0
	}
	return runtimes.ElemOf(onnx.DType(n))
}

// tensor wraps a tensor in a value of the library, without copying its data, which must not
// move or change during the value's lifetime.
func (e *Engine) tensor(t runtimes.Tensor) (uintptr, error) {
	if err := t.Check(); err != nil {
		return 0, err
	}
	shape := append(slices.Clone(t.Shape), 0)
	if t.Type != runtimes.String && len(t.Data) > 0 {
		return e.api.create(createTensorWithData, e.memory, uintptr(unsafe.Pointer(&t.Data[0])), uintptr(len(t.Data)),
			uintptr(unsafe.Pointer(&shape[0])), uintptr(len(t.Shape)), uintptr(t.Type.ONNX()))
	}
	v, err := e.api.create(createTensor, e.allocator, uintptr(unsafe.Pointer(&shape[0])), uintptr(len(t.Shape)), uintptr(t.Type.ONNX()))
	if err != nil || t.Type != runtimes.String {
		return v, err
	}
	if err := e.fill(v, t); err != nil {
		e.api.release(releaseValue, v)
		return 0, err
	}
	return v, nil
}

// fill writes texts to a value.
func (e *Engine) fill(v uintptr, t runtimes.Tensor) error {
	texts, err := t.Strings()
	if err != nil || len(texts) == 0 {
		return err
	}
	list := make([]*byte, len(texts))
	for i, s := range texts {
		if strings.ContainsRune(s, 0) {
			return fmt.Errorf("text %d contains a zero byte, which ends it in ONNX Runtime", i)
		}
		list[i] = cString(s)
	}
	defer runtime.KeepAlive(list)
	return e.api.call(fillStrings, v, uintptr(unsafe.Pointer(&list[0])), uintptr(len(list)))
}

// result returns a value of the library as a tensor that aliases its data.
func (e *Engine) result(v uintptr) (runtimes.Tensor, error) {
	var t runtimes.Tensor
	if v == 0 {
		return t, errors.New("missing value")
	}
	kind := new(int32)
	if err := e.api.call(valueType, v, uintptr(unsafe.Pointer(kind))); err != nil || *kind != valueTensor {
		return t, errors.Join(err, fmt.Errorf("not a tensor (ONNX type %d)", *kind))
	}
	info, err := e.api.create(tensorTypeAndShape, v)
	if err != nil {
		return t, err
	}
	defer e.api.release(releaseTensorInfo, info)
	if t.Type, t.Shape, err = e.shape(info); err != nil {
		return t, err
	}
	n := int64(1)
	for _, d := range t.Shape {
		n *= d // the library has allocated that many
	}
	if t.Type == runtimes.String {
		texts, err := e.texts(v, int(n))
		return runtimes.Strings(t.Shape, texts), err
	}
	if size := (n*int64(t.Type.Bits()) + 7) / 8; size > 0 {
		at, err := e.api.create(tensorData, v)
		if err != nil {
			return t, err
		}
		t.Data = unsafe.Slice((*byte)(dynlib.Pointer(at)), size)
	}
	return t, t.Check()
}

// texts returns the n texts of a value.
func (e *Engine) texts(v uintptr, n int) ([]string, error) {
	if n == 0 {
		return nil, nil
	}
	size := new(uintptr)
	if err := e.api.call(stringsLength, v, uintptr(unsafe.Pointer(size))); err != nil {
		return nil, err
	}
	text, ends := make([]byte, *size+1), make([]uintptr, n+1)
	if err := e.api.call(stringsContent, v, uintptr(unsafe.Pointer(&text[0])), *size, uintptr(unsafe.Pointer(&ends[0])), uintptr(n)); err != nil {
		return nil, err
	}
	ends[n] = *size
	list := make([]string, n)
	for i := range list {
		if ends[i] > ends[i+1] || ends[i+1] > *size {
			return nil, errors.New("ONNX Runtime's texts overlap")
		}
		list[i] = string(text[ends[i]:ends[i+1]])
	}
	return list, nil
}

// shape returns the element type and the dimensions.
func (e *Engine) shape(info uintptr) (typ runtimes.Elem, dims []int64, err error) {
	n, count := new(int32), new(uintptr)
	if err := errors.Join(e.api.call(tensorElementType, info, uintptr(unsafe.Pointer(n))), e.api.call(dimensionsCount, info, uintptr(unsafe.Pointer(count)))); err != nil {
		return "", nil, err
	}
	if typ = elemOf(*n); typ == "" {
		return "", nil, fmt.Errorf("unsupported ONNX element type %d", *n)
	}
	if *count > 0 {
		dims = make([]int64, *count)
		err = e.api.call(dimensions, info, uintptr(unsafe.Pointer(&dims[0])), *count)
	}
	return typ, dims, err
}

// describe reads the session's inputs and outputs.
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
	p, err := f.e.api.create(which, f.session, i, f.e.allocator)
	if err != nil {
		return "", err
	}
	text := dynlib.String(p)
	return text, f.e.api.call(allocatorFree, f.e.allocator, p)
}

func (f *function) input(i uintptr) (in input, err error) {
	info, err := f.e.api.create(sessionInputTypeInfo, f.session, i)
	if err != nil {
		return in, err
	}
	defer f.e.api.release(releaseTypeInfo, info)
	shape, err := f.e.api.create(castTypeInfo, info) // part of info
	if err != nil || shape == 0 {
		return in, errors.Join(err, errors.New("not a tensor"))
	}
	in.typ, in.dims, err = f.e.shape(shape)
	return in, err
}

// fit reports every misfit of the inputs.
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
