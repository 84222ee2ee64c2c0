package tflite

import (
	"fmt"
	"math"
)

// Model is a model with one graph.
type Model struct {
	Description string
	Metadata    []Entry
	Tensors     []Tensor
	Inputs      []Port
	Outputs     []Port
	Operators   []Operator
}

// Entry is a key of the metadata with its value.
type Entry struct{ Key, Value string }

// Port names a tensor of the graph for callers.
type Port struct {
	Name   string
	Tensor int
}

// Tensor is a value. One with data is a constant.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int
	Data  []byte
	// Scales quantize Int8 data symmetrically along Axis; nil if the data are not
	// quantized.
	Scales []float32
	Axis   int
}

// Operator is a step of the graph. An input of -1 is omitted.
type Operator struct {
	Code            Code
	Version         int // if 0, 1
	Inputs, Outputs []int
	Options         []Option
}

// Option is a field of an operator's options: a bool, an int8, an int32 or a
// float32.
type Option struct {
	Slot  int
	Value any
}

// maxModel is the size limit of a model, in bytes: offsets are signed numbers of
// 32 bits in readers.
const maxModel = math.MaxInt32 - 1<<20

// check refuses what runtimes would accept or fail to explain: a wrong count of
// data, a tensor that no operator produces before its use, a wrong index.
func (m *Model) check() error {
	ready := make([]bool, len(m.Tensors))
	total := 0
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if err := t.check(); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		ready[i] = t.Data != nil
		total += len(t.Data)
	}
	if err := checkSize(total); err != nil {
		return err
	}
	for _, p := range m.Inputs {
		if p.Tensor < 0 || p.Tensor >= len(ready) || ready[p.Tensor] {
			return fmt.Errorf("input %q: bad tensor %d", p.Name, p.Tensor)
		}
		ready[p.Tensor] = true
	}
	for i, o := range m.Operators {
		for k, in := range o.Inputs {
			if in < -1 || in >= len(ready) || in >= 0 && !ready[in] {
				return fmt.Errorf("operator %d (code %d): input %d is not computed before it", i, o.Code, k)
			}
		}
		for k, out := range o.Outputs {
			if out < 0 || out >= len(ready) || ready[out] {
				return fmt.Errorf("operator %d (code %d): output %d is computed twice", i, o.Code, k)
			}
			ready[out] = true
		}
	}
	for _, p := range m.Outputs {
		if p.Tensor < 0 || p.Tensor >= len(ready) || !ready[p.Tensor] {
			return fmt.Errorf("output %q is not computed", p.Name)
		}
	}
	return nil
}

func checkSize(n int) error {
	if n > maxModel {
		return fmt.Errorf("weights too large for one file: got %d bytes, the limit is %d", n, int64(maxModel))
	}
	return nil
}

// check compares the data and the scales with the shape.
func (t *Tensor) check() error {
	n := 1
	for _, d := range t.Shape {
		if d < 0 {
			return fmt.Errorf("open dimension in the shape %v", t.Shape)
		}
		n *= d
	}
	if t.Data != nil && len(t.Data) != n*t.Type.size() {
		return fmt.Errorf("wrong size of data: got %d bytes, want %d", len(t.Data), n*t.Type.size())
	}
	if len(t.Scales) == 0 {
		return nil
	}
	if t.Type != Int8 || t.Axis < 0 || t.Axis >= len(t.Shape) || len(t.Scales) != 1 && len(t.Scales) != t.Shape[t.Axis] {
		return fmt.Errorf("got %d scales along axis %d of the shape %v", len(t.Scales), t.Axis, t.Shape)
	}
	for _, s := range t.Scales {
		if !(s > 0) || math.IsInf(float64(s), 0) {
			return fmt.Errorf("bad scale %v", s)
		}
	}
	return nil
}
