package lower

import (
	"encoding/binary"
	"fmt"
	"math"

	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine"
)

// value returns the value of a name of the model.
func (l *lowering) value(name string) (*Value, error) {
	if v := l.values[name]; v != nil {
		return v, nil
	}
	t, ok := l.seen[name]
	if !ok {
		t, ok = l.sample[name]
	}
	if !ok {
		for i := range l.model.Graph.Initializers {
			if w := &l.model.Graph.Initializers[i]; w.Name == name {
				data, err := w.Bytes()
				if err != nil {
					return nil, err
				}
				t, ok = engine.Tensor{Type: w.DType, Shape: ints(w.Dims), Data: data}, true
			}
		}
	}
	if !ok {
		return nil, fmt.Errorf("value %q: neither an input nor a result", name)
	}
	v := &Value{Name: name, Shape: t.Shape, Declared: t.Type}
	var err error
	if v.Type, err = elementOf(t.Type); err != nil {
		return nil, fmt.Errorf("value %q: %w", name, err)
	}
	if l.constant[name] {
		v.Const = contents(t)
	}
	l.values[name] = v
	return v, nil
}

func ints(dims []int64) []int {
	out := make([]int, len(dims))
	for i, d := range dims {
		out[i] = int(d)
	}
	return out
}

// elementOf returns the element type of a value; 16-bit floats are widened.
func elementOf(d onnx.DType) (Element, error) {
	switch d {
	case onnx.FLOAT, onnx.FLOAT16, onnx.BFLOAT16:
		return Float32, nil
	case onnx.INT64:
		return Int64, nil
	case onnx.INT32, onnx.INT16, onnx.INT8, onnx.UINT8, onnx.UINT16:
		return Int32, nil
	case onnx.BOOL:
		return Bool, nil
	}
	return 0, fmt.Errorf("unsupported element type %s", d)
}

// contents converts the elements of a constant.
func contents(t engine.Tensor) *Const {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	c := &Const{}
	switch t.Type {
	case onnx.FLOAT:
		c.Floats = make([]float32, n)
		for i := range c.Floats {
			c.Floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
		}
	case onnx.FLOAT16, onnx.BFLOAT16:
		typ := tensor.F16
		if t.Type == onnx.BFLOAT16 {
			typ = tensor.BF16
		}
		c.Floats = make([]float32, n)
		quant.Dequantize(c.Floats, t.Data, typ)
	default:
		c.Ints = make([]int64, n)
		for i := range c.Ints {
			c.Ints[i] = integer(t, i)
		}
	}
	return c
}

// integer returns an element of a tensor of integers.
func integer(t engine.Tensor, i int) int64 {
	switch t.Type {
	case onnx.INT64:
		return int64(binary.LittleEndian.Uint64(t.Data[8*i:]))
	case onnx.INT32:
		return int64(int32(binary.LittleEndian.Uint32(t.Data[4*i:])))
	case onnx.INT16:
		return int64(int16(binary.LittleEndian.Uint16(t.Data[2*i:])))
	case onnx.UINT16:
		return int64(binary.LittleEndian.Uint16(t.Data[2*i:]))
	case onnx.INT8:
		return int64(int8(t.Data[i]))
	}
	return int64(t.Data[i])
}

// floats returns a new constant.
func (l *lowering) floats(shape []int, values ...float32) *Value {
	l.fresh++
	return &Value{Name: fmt.Sprintf("lower.%d", l.fresh), Shape: shape, Const: &Const{Floats: values}}
}

// temp returns a new value between nodes.
func (l *lowering) temp(e Element, shape []int) *Value {
	l.fresh++
	return &Value{Name: fmt.Sprintf("lower.%d", l.fresh), Type: e, Shape: shape}
}
