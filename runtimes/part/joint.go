package part

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
)

// Side is a part on one side of a joint.
type Side struct {
	ID       string // name@version
	Manifest *modules.Manifest
	// Dims are the dimensions of the inputs of the part's file, by name, with 0
	// for open ones. A missing input is unknown.
	Dims map[string][]int64
}

// describeTensor formats a tensor as ports are written: fp16 [1 16 64].
func describeTensor(t runtimes.Tensor) string { return fmt.Sprintf("%s %v", t.Type, t.Shape) }

// Connect maps the outputs of an encoder to the inputs of a projector.
func Connect(enc, proj Side, inputs map[string]runtimes.Tensor) (map[string]runtimes.Tensor, error) {
	outs, ins := enc.Manifest.Outputs, proj.Manifest.Inputs
	var sizes abi.Binding
	for _, m := range []*modules.Manifest{enc.Manifest, proj.Manifest} {
		for _, f := range m.Bind(&sizes) {
			return nil, fmt.Errorf("%s: %w", m.ID(), f)
		}
	}
	in := map[string]runtimes.Tensor{}
	for _, to := range ins {
		i := slices.IndexFunc(outs, func(p abi.Port) bool { return p.Name == to.Name })
		if i < 0 && len(outs) == 1 && len(ins) == 1 {
			i = 0
		}
		if i < 0 {
			return nil, fmt.Errorf("%s takes %s, missing in the outputs of %s", proj.ID, to, enc.ID)
		}
		from := outs[i]
		t, ok := inputs[from.Name]
		if !ok {
			return nil, fmt.Errorf("%s: missing output %s", enc.ID, from)
		}
		misfit := func(err error) error {
			return fmt.Errorf("%s: got %s for output %s, input %s of %s: %w", enc.ID, describeTensor(t), from, to, proj.ID, err)
		}
		if err := fits(t, from, enc.ID, &sizes); err != nil {
			return nil, misfit(err)
		}
		if err := fits(t, to, proj.ID, &sizes); err != nil {
			return nil, misfit(err)
		}
		cast, err := castTo(t, declared(proj.Manifest, to))
		if err == nil {
			cast, err = ranked(cast, len(proj.Dims[to.Name]))
		}
		if err != nil {
			return nil, misfit(err)
		}
		in[to.Name] = cast
	}
	return in, nil
}

// declared returns the element type that the file of a module takes for a port; its
// preprocess block may declare another type than the port.
func declared(m *modules.Manifest, p abi.Port) runtimes.Elem {
	if spec, ok := m.Preprocess[p.Name]; ok {
		return runtimes.Elem(spec.Element())
	}
	return runtimes.Elem(p.DType)
}

// fits reports a tensor that does not match a port. A batch dimension of one may
// precede the dimensions of the port.
func fits(t runtimes.Tensor, p abi.Port, scope string, sizes *abi.Binding) error {
	if t.Type != runtimes.Elem(p.DType) {
		return fmt.Errorf("got type %s, want %s", t.Type, p.DType)
	}
	dims := t.Shape
	if len(dims) == len(p.Shape)+1 {
		if dims[0] != 1 {
			return fmt.Errorf("got a batch of %d, want 1", dims[0])
		}
		dims = dims[1:]
	}
	if len(dims) != len(p.Shape) {
		return fmt.Errorf("got %d dimensions, want %d", len(t.Shape), len(p.Shape))
	}
	for i, want := range p.Shape {
		if want.Name == "" {
			if dims[i] != want.Size {
				return fmt.Errorf("dimension %d of %s: got %d, want %d", i, p.Name, dims[i], want.Size)
			}
			continue
		}
		if n, by, ok := sizes.Size(scope, want.Name); ok && n != dims[i] {
			return fmt.Errorf("%s: got %d, want %d (%s)", want.Name, dims[i], n, by)
		}
		sizes.Set(scope, want.Name, dims[i], scope+" "+p.Name) // a no-op if the size is known
	}
	return nil
}

// ranked adds or removes the leading batch dimension of one that files have and
// ports leave out. If rank is 0, it is unknown.
func ranked(t runtimes.Tensor, rank int) (runtimes.Tensor, error) {
	switch {
	case rank == 0 || rank == len(t.Shape):
	case rank == len(t.Shape)+1:
		t.Shape = append([]int64{1}, t.Shape...)
	case rank == len(t.Shape)-1 && t.Shape[0] == 1:
		t.Shape = t.Shape[1:]
	default:
		return t, fmt.Errorf("the file takes rank %d", rank)
	}
	return t, nil
}

// castTo converts between floating point types.
func castTo(t runtimes.Tensor, to runtimes.Elem) (runtimes.Tensor, error) {
	if t.Type == to {
		return t, nil
	}
	x, err := Floats(t)
	if err != nil {
		return t, err
	}
	out, ok := tensorOf(x, t.Shape, to)
	if !ok {
		return t, fmt.Errorf("cannot cast %s to %s", t.Type, to)
	}
	return out, nil
}

// tensorOf returns a floating point tensor of 16 or 32 bits.
func tensorOf(x []float32, shape []int64, to runtimes.Elem) (runtimes.Tensor, bool) {
	out := runtimes.Tensor{Type: to, Shape: shape, Data: make([]byte, to.Size()*len(x))}
	switch to {
	case runtimes.Float32:
		for i, v := range x {
			binary.LittleEndian.PutUint32(out.Data[4*i:], math.Float32bits(v))
		}
	case runtimes.Float16:
		tensor.ToF16(out.Data, x)
	case runtimes.BFloat16:
		for i, v := range x {
			binary.LittleEndian.PutUint16(out.Data[2*i:], tensor.F32ToBF16(v))
		}
	default:
		return out, false
	}
	return out, true
}

// Floats returns the numbers of a floating point tensor.
func Floats(t runtimes.Tensor) ([]float32, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	size := t.Type.Size()
	x := make([]float32, len(t.Data)/size)
	switch t.Type {
	case runtimes.Float32:
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
		}
	case runtimes.Float16:
		tensor.FromF16(x, t.Data)
	case runtimes.BFloat16:
		tensor.FromBF16(x, t.Data)
	default:
		return nil, fmt.Errorf("type %s is not a floating point of 16 or 32 bits", t.Type)
	}
	return x, nil
}

// Vectors reads the output of a projector: at most limit vectors, each of
// params.d_model numbers.
func Vectors(proj Side, inputs map[string]runtimes.Tensor, limit int) (v []float32, width int, err error) {
	if len(proj.Manifest.Outputs) != 1 {
		return nil, 0, fmt.Errorf("%s: got %d outputs, want 1", proj.ID, len(proj.Manifest.Outputs))
	}
	port := proj.Manifest.Outputs[0]
	t, ok := inputs[port.Name]
	if !ok {
		return nil, 0, fmt.Errorf("%s: missing output %s", proj.ID, port)
	}
	misfit := func(format string, args ...any) ([]float32, int, error) {
		return nil, 0, fmt.Errorf("%s: got %s for output %s: %s", proj.ID, describeTensor(t), port, fmt.Sprintf(format, args...))
	}
	dims := t.Shape
	if len(dims) == 3 && dims[0] == 1 {
		dims = dims[1:]
	}
	width64, declared := proj.Manifest.Params.Int("d_model")
	width64 = proj.Manifest.VectorWidth(width64)
	switch {
	case t.Type != runtimes.Elem(port.DType):
		return misfit("got type %s, want %s", t.Type, port.DType)
	case len(dims) != 2:
		return misfit("want [vectors, d_model] or a batch of one")
	case dims[1] < 1 || dims[1] > math.MaxInt32 || declared && dims[1] != width64:
		return misfit("want d_model %d", width64)
	case dims[0] < 1 || dims[0] > int64(limit):
		return misfit("want 1 to %d vectors", limit)
	}
	x, err := Floats(t)
	if err != nil {
		return misfit("%v", err)
	}
	for i, v := range x {
		if v != v || math.IsInf(float64(v), 0) {
			return misfit("element %d is %v", i, v)
		}
	}
	return x, int(dims[1]), nil
}
