package kernel

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/onnx"
)

// Func computes the outputs of a call.
type Func func(c *Call) error

// Operator is a kernel with the range of its support.
type Operator struct {
	Run      Func
	Since    int64 // the first opset
	Min, Max int   // inputs
	// Raw kernels take 16-bit floats; others get float32.
	Raw bool
}

// Many is the maximum number of inputs of variadic operators.
const Many = 1 << 20

// Operators maps names to operators.
type Operators map[string]Operator

// All adds one operator under several names.
func (t Operators) All(o Operator, names ...string) {
	for _, n := range names {
		t[n] = o
	}
}

// Family holds a kernel for each numeric type, in the order float32, float64,
// int8, int16, int32, int64, uint8, uint16, uint32, uint64; nil for none.
type Family [10]Func

var order = [10]onnx.DType{onnx.FLOAT, onnx.DOUBLE, onnx.INT8, onnx.INT16, onnx.INT32, onnx.INT64, onnx.UINT8, onnx.UINT16, onnx.UINT32, onnx.UINT64}

// By returns the kernel that dispatches on the type of the given input.
func (f Family) By(input int) Func {
	return func(c *Call) error {
		a := c.Input(input)
		if a == nil {
			return fmt.Errorf("missing input %d", input)
		}
		i := slices.Index(order[:], a.Type)
		if i < 0 || f[i] == nil {
			return fmt.Errorf("input %d: unsupported type %s", input, a.Type)
		}
		return f[i](c)
	}
}

// Number lists the types of a family.
type Number interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// TypeOf returns the ONNX type of T.
func TypeOf[T Elem]() onnx.DType {
	var v T
	switch any(v).(type) {
	case float32:
		return onnx.FLOAT
	case float64:
		return onnx.DOUBLE
	case int8:
		return onnx.INT8
	case int16:
		return onnx.INT16
	case int32:
		return onnx.INT32
	case int64:
		return onnx.INT64
	case uint8:
		return onnx.UINT8
	case uint16:
		return onnx.UINT16
	case uint32:
		return onnx.UINT32
	case uint64:
		return onnx.UINT64
	}
	return onnx.BOOL
}

// Integral reports whether T is an integer type.
func Integral[T Number]() bool { var one T = 1; return one/2 == 0 }

// Widened runs a kernel on 16-bit floats through float32.
func Widened(k Func) Func {
	return func(c *Call) error {
		narrow := onnx.DType(0)
		for _, a := range c.In {
			if a != nil && (a.Type == onnx.FLOAT16 || a.Type == onnx.BFLOAT16) {
				narrow = a.Type
			}
		}
		if narrow == 0 {
			return k(c)
		}
		in := c.In
		c.In = slices.Clone(in)
		defer func() {
			for i, a := range c.In {
				if a != in[i] {
					c.Arena.Release(a)
				}
			}
			c.In = in
		}()
		for i, a := range in {
			if a != nil && a.Type == narrow {
				wide, err := c.Cast(a, onnx.FLOAT)
				if err != nil {
					return err
				}
				c.In[i] = wide
			}
		}
		if err := k(c); err != nil {
			return err
		}
		for i, a := range c.Out {
			if a == nil || a.Type != onnx.FLOAT {
				continue
			}
			small, err := c.Cast(a, narrow)
			if err != nil {
				return err
			}
			c.Arena.Release(a)
			c.Out[i] = small
		}
		return nil
	}
}
