// Package kernel holds what the kernels of operators have in common.
//
// A [Call] is one application of an operator: the inputs as arrays, the
// attributes, and where results go. A [Func] judges types and shapes before it
// computes, so that a hostile model ends in an error, and allocates through the
// call alone, whose arena bounds the memory. What it does on several threads it
// cuts by the shapes alone ([Call.Each]): results do not depend on their number.
// Besides stand the rules of shapes, walks over elements that lie apart,
// conversions between types, and the table that a package gives of its
// [Operators].
//
// A kernel is called with the inputs that it has at least; what it is claimed
// for, package op checks.
package kernel

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/core/tensor"
	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/array"
)

// Call is one application of an operator.
type Call struct {
	Context context.Context
	Arena   *array.Arena
	Pool    *pool.Pool
	Node    *onnx.Node
	Opset   int64
	In      []*array.Array // nil for one left out
	Fixed   []bool         // which inputs are the same in each run
	Out     []*array.Array
	// Cache is what a kernel keeps from one run to the next, such as weights
	// in the order that they are read. It must follow from fixed inputs.
	Cache *any
	// Sub runs a graph of the node's attributes; nil where there is none.
	Sub func(attribute string, in []*array.Array) ([]*array.Array, error)
	// Steps is how often a loop may go round.
	Steps int
	// Lanes are the workspaces of the pool's threads.
	Lanes []Lane
	// Then is an activation that was joined to a product; nil for none.
	Then func(dst, x []float32)
	// Transposed says that the last two dimensions of a product's right factor
	// are to be read the other way round.
	Transposed bool
	// Rows are workspaces as well, of convolutions.
	Rows []tensor.Row
	// After is what was joined to a convolution; nil for nothing.
	After *After
}

// Attribute finds an attribute of the node, nil when it is left out.
func (c *Call) Attribute(name string) *onnx.Attribute {
	for i := range c.Node.Attributes {
		if c.Node.Attributes[i].Name == name {
			return &c.Node.Attributes[i]
		}
	}
	return nil
}

// Int is a whole number among the attributes, or absent where it is left out.
func (c *Call) Int(name string, absent int) int {
	if a := c.Attribute(name); a != nil {
		return int(a.Int)
	}
	return absent
}

// Float is a float32 among the attributes, or absent where it is left out.
func (c *Call) Float(name string, absent float32) float32 {
	if a := c.Attribute(name); a != nil {
		return a.Float
	}
	return absent
}

// Text is a string among the attributes, or absent where it is left out.
func (c *Call) Text(name, absent string) string {
	if a := c.Attribute(name); a != nil {
		return string(a.String)
	}
	return absent
}

// Ints are the whole numbers of an attribute; nil when it is left out.
func (c *Call) Ints(name string) []int {
	a := c.Attribute(name)
	if a == nil {
		return nil
	}
	out := make([]int, len(a.Ints))
	for i, v := range a.Ints {
		out[i] = int(v)
	}
	return out
}

// Input is input i, nil when it is left out.
func (c *Call) Input(i int) *array.Array {
	if i < len(c.In) {
		return c.In[i]
	}
	return nil
}

// Same reports whether input i is the same in each run.
func (c *Call) Same(i int) bool { return i < len(c.Fixed) && c.Fixed[i] }

// Integers reads an input of int32 or int64, such as a shape; nil when it is
// left out. Numbers beyond 32 bits are brought to the ends of them.
func (c *Call) Integers(i int) ([]int, error) {
	a := c.Input(i)
	if a == nil {
		return nil, nil
	}
	out := make([]int, a.Len())
	switch a.Type {
	case onnx.INT64:
		for k, v := range array.Of[int64](a) {
			if v > math.MaxInt32 || v < -math.MaxInt32 { // "to the end" of a Slice
				v = max(min(v, math.MaxInt32), -math.MaxInt32)
			}
			out[k] = int(v)
		}
	case onnx.INT32:
		for k, v := range array.Of[int32](a) {
			out[k] = int(v)
		}
	default:
		return nil, fmt.Errorf("input %d is of %s, not of whole numbers", i, a.Type)
	}
	return out, nil
}

// Axes reads whole numbers that are an attribute, or from an opset on an input.
func (c *Call) Axes(name string, input int, opset int64) ([]int, error) {
	if c.Opset >= opset {
		return c.Integers(input)
	}
	return c.Ints(name), nil
}

// Floats gives the elements of inputs, nil for those left out. One of a type
// other than float32 is an error.
func (c *Call) Floats(inputs ...int) ([][]float32, error) {
	out := make([][]float32, len(inputs))
	for k, i := range inputs {
		a := c.Input(i)
		if a == nil {
			continue
		}
		if a.Type != onnx.FLOAT {
			return nil, fmt.Errorf("input %d is of %s, supported is float32", i, a.Type)
		}
		out[k] = array.Of[float32](a)
	}
	return out, nil
}

// Doubles reads an input of numbers of any type, which has to be there.
func (c *Call) Doubles(i int) ([]float64, error) {
	if c.Input(i) == nil {
		return nil, fmt.Errorf("input %d is left out", i)
	}
	a, err := c.Cast(c.In[i], onnx.DOUBLE)
	if err != nil {
		return nil, err
	}
	defer c.Arena.Release(a)
	return slices.Clone(array.Of[float64](a)), nil
}

// Result makes output i, whose elements are not set yet, and gives back what
// was there. That memory is short is an error.
func (c *Call) Result(i int, t onnx.DType, shape ...int) (*array.Array, error) {
	a, err := c.Arena.New(t, shape...)
	if err != nil {
		return nil, err
	}
	if i < len(c.Out) {
		c.Arena.Release(c.Out[i])
		c.Out[i] = a
	}
	return a, nil
}

// Want checks the type of inputs, if they are there.
func (c *Call) Want(t onnx.DType, inputs ...int) error {
	for _, i := range inputs {
		if a := c.Input(i); a != nil && a.Type != t {
			return fmt.Errorf("input %d is of %s, wanted is %s", i, a.Type, t)
		}
	}
	return nil
}

// Lengths checks that inputs have n elements each, if they are there.
func (c *Call) Lengths(n int, inputs ...int) error {
	for _, i := range inputs {
		if a := c.Input(i); a != nil && a.Len() != n {
			return fmt.Errorf("input %d is %v, wanted are %d elements", i, a.Shape, n)
		}
	}
	return nil
}

// Grain is how many elements of work are worth a thread's attention.
const Grain = 1 << 14

// Each runs f over [0, n) on the pool, in pieces that hold about Grain
// elements when each index stands for size of them. When the context has ended
// pieces are left out: what the kernel gives is thrown away then.
func (c *Call) Each(n, size int, f func(thread, lo, hi int)) {
	c.Loop(n, max(1, Grain/max(size, 1)), f)
}

// Loop is Each in pieces of at most chunk.
func (c *Call) Loop(n, chunk int, f func(thread, lo, hi int)) {
	if n <= chunk {
		if n > 0 {
			f(0, 0, n)
		}
		return
	}
	var fault atomic.Pointer[any]
	c.Pool.For(n, chunk, pool.Func(func(thread, lo, hi int) {
		defer func() {
			if r := recover(); r != nil {
				fault.Store(&r)
			}
		}()
		if !c.Ended() && fault.Load() == nil {
			f(thread, lo, hi)
		}
	}))
	if r := fault.Load(); r != nil { // as if the kernel's own goroutine had met it
		panic(*r)
	}
}

// Ended reports whether nobody waits for the result any more.
func (c *Call) Ended() bool { return c.Context.Err() != nil }
