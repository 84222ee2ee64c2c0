package modality

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/runtimes"
)

// maxState bounds one state, in bytes.
const maxState = 1 << 30

// describe reads the file's inputs, the labels and the initial state.
func (s *Session) describe() error {
	s.askFile()
	isInput := func(name string) bool {
		_, ok := s.inputs[name]
		return ok || s.inputs == nil && slices.ContainsFunc(s.m.Inputs, func(p abi.Port) bool { return p.Name == name })
	}
	s.initial, s.next, s.constants = map[string]runtimes.Tensor{}, map[string]string{}, map[string]runtimes.Tensor{}
	var errs []error
	carried := s.m.Carried(isInput)
	for _, name := range slices.Sorted(maps.Keys(carried)) {
		st := carried[name]
		t, err := s.filled(name, st.Shape, st.DType, st.Init)
		if err != nil {
			errs = append(errs, fmt.Errorf("state %q: %w", name, err))
		}
		s.initial[name], s.next[name] = t, st.From
	}
	for _, name := range slices.Sorted(maps.Keys(s.m.Constants)) {
		c := s.m.Constants[name]
		t, err := s.filled(name, c.Shape, c.DType, c.Value)
		if err != nil {
			errs = append(errs, fmt.Errorf("constant %q: %w", name, err))
		}
		s.constants[name] = t
	}
	s.labels = map[string][]string{}
	for _, name := range s.m.LabelFiles() {
		lines, err := s.readLabels(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("reading labels %s: %w", name, err))
		}
		s.labels[name] = lines
	}
	return errors.Join(errs...)
}

// askFile reads the inputs of the module's ONNX file. Without such a file only the
// manifest describes them.
func (s *Session) askFile() {
	entry := s.m.Entry(abi.ONNX)
	if entry == "" {
		return
	}
	path, err := s.opt.Path(entry)
	if err != nil {
		return
	}
	model, err := onnx.Open(path)
	if err != nil {
		return // the engine reports it
	}
	defer model.Close()
	s.inputs = map[string]onnx.Type{}
	for _, v := range model.Inputs() {
		t := v.Type
		t.Dims = slices.Clone(t.Dims)
		s.inputs[strings.Clone(v.Name)] = t
	}
}

// filled returns an input filled with one number. Shape and dtype default to the
// file's, then the manifest's; an open dimension is 1.
func (s *Session) filled(name string, shape []int64, dtype abi.DType, value float64) (runtimes.Tensor, error) {
	elem := runtimes.Elem(dtype)
	in, inFile := s.inputs[name]
	if inFile {
		if dtype == "" {
			elem = runtimes.ElemOf(in.DType)
		}
		if shape == nil && in.Ranked {
			shape = make([]int64, len(in.Dims))
			for i, d := range in.Dims {
				shape[i] = 1
				if d.Param == "" && d.Value > 0 {
					shape[i] = d.Value
				}
			}
		}
	}
	if i := slices.IndexFunc(s.m.Inputs, func(p abi.Port) bool { return p.Name == name }); i >= 0 && !inFile {
		p := s.m.Inputs[i]
		if dtype == "" {
			elem = runtimes.Elem(p.DType)
		}
		for _, d := range p.Shape {
			if shape == nil || len(shape) < len(p.Shape) {
				shape = append(shape, s.size(d))
			}
		}
	}
	if elem == "" {
		return runtimes.Tensor{}, errors.New("unknown type: add dtype and shape to the manifest")
	}
	return fill(elem, shape, value)
}

// size returns the size of a dimension in the manifest, or 1.
func (s *Session) size(d abi.Dim) int64 {
	if d.Name == "" {
		return d.Size
	}
	for _, f := range []modules.Figures{s.m.Params, s.m.Caps} {
		if n, ok := f.Int(d.Name); ok && n > 0 {
			return n
		}
	}
	return 1
}

// fill returns a tensor filled with one number.
func fill(elem runtimes.Elem, shape []int64, value float64) (runtimes.Tensor, error) {
	n, err := elements(elem, shape)
	if err != nil {
		return runtimes.Tensor{}, err
	}
	one, err := number(elem, value)
	if err != nil {
		return runtimes.Tensor{}, err
	}
	return runtimes.Tensor{Type: elem, Shape: slices.Clone(shape), Data: bytes.Repeat(one, n)}, nil
}

// elements returns the number of elements of a tensor of at most maxState bytes.
func elements(elem runtimes.Elem, shape []int64) (int, error) {
	size := int64(elem.Size())
	if size == 0 {
		return 0, fmt.Errorf("unknown element type %q", elem)
	}
	n := size
	for _, d := range shape {
		if d < 1 || n > maxState/d {
			return 0, fmt.Errorf("shape %v of %s: want 1 to %d bytes", shape, elem, maxState)
		}
		n *= d
	}
	return int(n / size), nil
}

// number returns the bytes of one element; a value out of the type's range is an
// error.
func number(elem runtimes.Elem, v float64) ([]byte, error) {
	le := binary.LittleEndian
	switch elem {
	case runtimes.Float64:
		return le.AppendUint64(nil, math.Float64bits(v)), nil
	case runtimes.Float32:
		return le.AppendUint32(nil, math.Float32bits(float32(v))), nil
	case runtimes.Float16:
		return le.AppendUint16(nil, preprocess.Half(float32(v))), nil
	case runtimes.BFloat16:
		bits := math.Float32bits(float32(v))
		return le.AppendUint16(nil, uint16((bits+0x7fff+bits>>16&1)>>16)), nil
	}
	width := 8 * elem.Size()
	low, high := -math.Ldexp(1, width-1), math.Ldexp(1, width-1)
	switch {
	case elem == runtimes.Bool:
		low, high = 0, 2
	case elem[0] == 'u':
		low, high = 0, math.Ldexp(1, width)
	}
	if v != math.Trunc(v) || v < low || v >= high {
		return nil, fmt.Errorf("%v is not a valid %s", v, elem)
	}
	bits := uint64(int64(v))
	if v >= math.MaxInt64 {
		bits = uint64(v)
	}
	return le.AppendUint64(nil, bits)[:elem.Size()], nil
}

// readLabels returns the lines of a file of the module.
func (s *Session) readLabels(name string) ([]string, error) {
	path, err := s.opt.Path(name)
	if err != nil {
		return nil, err
	}
	return modules.ReadLabels(path)
}
